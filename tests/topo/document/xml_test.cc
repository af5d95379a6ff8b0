#include "topo/document/xml.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/ok.h"
#include "tests/topo/topologies.h"

namespace railwise::topo {
namespace {

// A document of one <system>, closed.
std::string inSystem(const std::string& text) { return "<system version=\"1\">" + text + "</system>"; }

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; i++) all += text;
  return all;
}

// Everything but kinds and positions: a writer turns <cpu></cpu> into <cpu/>.
std::string shape(const XmlNode& node) {
  std::string text = node.name + "(";
  for (const XmlAttribute& attribute : node.attributes) text += attribute.name + "=[" + attribute.value + "]";
  for (const XmlNode* child : node.children) text += shape(*child);
  return text + ")";
}

struct Text {
  const char* name;
  std::string text;
  std::string expected;  // accepted: the shape of <system>'s children; refused: a part of the message
};

void PrintTo(const Text& text, std::ostream* out) { *out << text.name; }
std::string textName(const testing::TestParamInfo<Text>& info) { return info.param.name; }

class Accepted : public testing::TestWithParam<Text> {};
TEST_P(Accepted, AsNcclDoes) {
  const Outcome<XmlDocument> document = parseXml(GetParam().text, "f.xml");
  ASSERT_OK(document);
  std::string shapes;
  for (const XmlNode* child : document->system()->children) shapes += shape(*child);
  EXPECT_EQ(shapes, GetParam().expected);
}

const std::string kLong = std::string(253, 'x');
const std::string kLonger = std::string(254, 'x');

// Each of these was put to NCCL 2.30.7's own parser.
INSTANTIATE_TEST_SUITE_P(
    Xml, Accepted,
    testing::Values(
        Text{"single_quotes", inSystem("<cpu a='b\"c'/>"), "cpu(a=[b\"c])"},
        Text{"double_space", inSystem("<cpu  a=\"b\"/>"), "cpu(=[]a=[b])"},
        Text{"space_before_slash", inSystem("<cpu a=\"b\" />"), "cpu(a=[b]=[])"},
        Text{"space_before_end", inSystem("<cpu a=\"b\" ></cpu>"), "cpu(a=[b]=[])"},
        Text{"attribute_without_value", inSystem("<cpu a b=\"c\"/>"), "cpu(a=[]b=[c])"},
        Text{"attribute_without_name", inSystem("<cpu =\"c\"/>"), "cpu(=[c])"},
        Text{"tab_before_name", inSystem("<cpu \ta=\"b\"/>"), "cpu(\ta=[b])"},
        Text{"tab_in_value", inSystem("<cpu a=\"b\tc\"/>"), "cpu(a=[b\tc])"},
        Text{"newline_in_value", inSystem("<cpu a=\"b\nc\"/>"), "cpu(a=[b\nc])"},
        Text{"end_in_value", inSystem("<cpu a=\"/>\"/>"), "cpu(a=[/>])"},
        Text{"entity", inSystem("<cpu a=\"&amp;\"/>"), "cpu(a=[&amp;])"},
        Text{"text_after_slash", inSystem("<cpu a=\"b\"/text>"), "cpu(a=[b])"},
        Text{"longest_value", inSystem("<cpu a=\"" + kLong + "\"/>"), "cpu(a=[" + kLong + "])"},
        Text{"longest_name", inSystem("<cpu " + kLonger + "=\"\"/>"), "cpu(" + kLonger + "=[])"},
        Text{"carriage_returns", inSystem("\r\n<cpu/>\r\n"), "cpu()"},
        Text{"comment", "<!-- a=b -->" + inSystem("<!-- > <cpu/> -- --><cpu/>"), "cpu()"},
        Text{"empty_comment", inSystem("<!----><cpu/>"), "cpu()"},
        Text{"comment_not_closed_at_once", inSystem("<!--> <pci/> --><cpu/>"), "cpu()"},
        Text{"unknown_tag", inSystem("<x><cpu/></y><cpu/>"), "cpu()"},
        Text{"tag_in_wrong_parent", inSystem("<cpu><gpu rank=\"0\"/><pci/></cpu>"), "cpu(pci())"},
        Text{"children_of_leaves", inSystem("<cpu><nic><net><net/></net></nic></cpu>"), "cpu(nic(net()))"},
        Text{"deep_unknown_tags", inSystem(repeated("<x>", 100000) + repeated("</x>", 100000)), ""},
        Text{"unknown_tags_do_not_count", inSystem(repeated("<x/>", 1000)), ""},
        Text{"most_nodes", inSystem(repeated("<cpu/>", 254)), repeated("cpu()", 254)},
        Text{"before_and_after_system", "<x></x></x></x>" + inSystem("<cpu/>") + "<x/>", "cpu()"},
        Text{"second_system", inSystem("<cpu/>") + inSystem(""), "cpu()"},
        Text{"version_with_rest", "<system version=\"0x1 and more\"></system>", ""},
        Text{"nul_ends_a_value", inSystem(std::string("<cpu a=\"b\0c\"/>", 14)), "cpu(a=[b])"}),
    textName);

class Refused : public testing::TestWithParam<Text> {};
TEST_P(Refused, AsNcclDoesWithThePlaceAndTheReason) {
  const Outcome<XmlDocument> document = parseXml(GetParam().text, "f.xml");
  ASSERT_FALSE(document.ok());
  EXPECT_HAS(document.error(), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Xml, Refused,
    testing::Values(
        Text{"empty", "", "f.xml:1:1: the file has no <system>"},
        Text{"graph_file", "\n<graphs version=\"1\"></graphs>", "f.xml:2:1: this is a graph file"},
        Text{"xml_header", "<?xml version=\"1.0\"?>\n" + inSystem(""),
             "f.xml:1:1: NCCL's parser does not know the <?xml"},
        Text{"xml_header_that_swallows", "<?xml version=\"1.0\" ?>\n" + inSystem(""),
             "1:1: NCCL's parser does not know the <?xml"},
        Text{"doctype", "<!DOCTYPE system>\n" + inSystem(""), "<!DOCTYPE> is never closed"},
        Text{"byte_order_mark", "\xef\xbb\xbf" + inSystem(""), "1:1: byte order mark"},
        Text{"no_version", "<system>", "1:1: <system> has no version"},
        Text{"wrong_version", "<system version=\"3\">", "has version \"3\""},
        Text{"two_versions", inSystem("") + "<system version=\"2\"/>", "another version"},
        Text{"newline_in_tag", "<system version=\"1\">\n<cpu a=\"b\"\nc=\"d\"/>",
             "f.xml:2:1: line break inside <cpu>"},
        Text{"newline_after_name", inSystem("<cpu\n a=\"b\"/>"), "line break inside <cpu>"},
        Text{"tab_in_tag", inSystem("<cpu a=\"b\"\tc=\"d\"/>"), "1:21: tab inside <cpu>"},
        Text{"tab_after_name", inSystem("<cpu\ta=\"b\"/>"), "tab inside <cpu>"},
        Text{"tab_between_tags", inSystem("\n\t<cpu/>"), "f.xml:2:1: tab between tags"},
        Text{"text", inSystem("<cpu>text</cpu>"), "1:26: text between tags, beginning with 't'"},
        Text{"no_quotes", inSystem("<cpu a=1/>"), "1:28: the value of a is not in quotes"},
        Text{"open_quote", inSystem("<cpu a=\"b/>"), "1:28: the quote of a is never closed"},
        Text{"no_space_between", inSystem("<cpu a=\"b\"c=\"d\"/>"), "1:31: 'c' inside <cpu>"},
        Text{"space_after_slash", inSystem("<cpu / >"), "1:27: a space after the '/' of <cpu>"},
        Text{"attribute_after_slash", inSystem("<cpu/a=\"b\">"), "an attribute after the '/' of <cpu>"},
        Text{"space_in_closing_tag", inSystem("<cpu></cpu >"), "1:26: a space inside the closing tag </cpu>"},
        Text{"mismatch", inSystem("\n<cpu>\n</pci>"), "f.xml:3:1: </pci> closes <cpu> of line 2"},
        Text{"not_closed", "<system version=\"1\">\n<cpu>", "f.xml:2:1: <cpu> is never closed"},
        Text{"unknown_not_closed", inSystem("<x>"), "1:1: <system> is never closed"},
        Text{"ends_in_tag", "<system version=\"1\"", "1:20: the file ends inside <system>"},
        Text{"ends_in_comment", inSystem("") + "<!-- ", "1:30: this comment is never closed"},
        Text{"comment_with_equals", "<!--a=b-->" + inSystem(""),
             "1:2: '=' before the first space of a comment"},
        Text{"comment_of_dashes", "<!" + std::string(300, '-') + ">" + inSystem(""),
             "a comment that begins with more than"},
        Text{"comment_short", "<!--->" + inSystem(""), "1:1: this comment is never closed"},
        Text{"long_value", inSystem("<cpu a=\"" + kLonger + "\"/>"),
             "the value of a has more than 253 characters"},
        Text{"long_name", inSystem("<" + kLonger + "/>"), "a name of more than 253 characters"},
        Text{"too_many_nodes", inSystem("\n" + repeated("<cpu/>", 255)),
             "f.xml:2:1525: this is element 256; NCCL's parser takes 255 at most; remove devices that NCCL "
             "does not use (`railwise topo show --any-size FILE` reads more)"},
        Text{"closing_system_alone", inSystem("") + "</system>", "</system> without <system>"}),
    textName);

TEST(Xml, NodesKnowTheirPlaces) {
  const auto document =
      parseXml("<system version=\"1\">\n  <cpu numaid=\"0\" arch='x'>\n  </cpu>\n</system>\n", "f.xml");
  ASSERT_OK(document);
  const XmlNode* cpu = document->find("cpu");
  EXPECT_EQ(cpu->position.line, 2);
  EXPECT_EQ(cpu->position.column, 3);
  EXPECT_EQ(cpu->attributes[1].position.column, 19);
  EXPECT_EQ(cpu->kind, XmlNodeKind::kOpen);
  EXPECT_EQ(where(*document, cpu->position), "f.xml:2:3");
  EXPECT_EQ(where(*document, {}), "f.xml");
}

TEST(Xml, AttributesBeyondTheSixteenthAreDroppedWithARemark) {
  std::string attributes;
  for (char name = 'a'; name < 'a' + 18; name++) attributes += std::string(" ") + name + "=\"" + name + "\"";
  std::vector<XmlRemark> remarks;
  const auto document = parseXml(inSystem("<cpu" + attributes + "/>"), "f.xml", {}, &remarks);
  ASSERT_OK(document);
  EXPECT_EQ(document->find("cpu")->attributes.size(), 16U);
  EXPECT_TRUE(document->find("cpu")->has("p"));
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_EQ(remarks[0].kind, XmlRemark::Kind::kExtraAttributes);
}

TEST(Xml, SkippedElementsAreRemarked) {
  std::vector<XmlRemark> remarks;
  ASSERT_OK(parseXml(inSystem("<x><y/></x>"), "f.xml", {}, &remarks));
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_EQ(remarks[0].kind, XmlRemark::Kind::kSkippedElement);
  EXPECT_EQ(remarks[0].position.column, 21);
}

TEST(Xml, WithoutALimitDepthAndChildrenAreBounded) {
  const XmlReadOptions unlimited{.max_nodes = 0};
  EXPECT_OK(parseXml(inSystem(repeated("<cpu/>", 640)), "f.xml", unlimited));
  EXPECT_FALSE(parseXml(inSystem(repeated("<cpu/>", 641)), "f.xml", unlimited).ok());
  EXPECT_FALSE(parseXml(inSystem("<cpu>" + repeated("<pci>", 2000)), "f.xml", unlimited).ok());
}

TEST(Xml, RcclFilesKeepTheirLinks) {
  const std::string gpu = "<cpu><pci><gpu><xgmi target=\"a\"/></gpu></pci></cpu>";
  const auto amd = parseXml("<system version=\"2\">" + gpu + "</system>", "f.xml");
  ASSERT_OK(amd);
  EXPECT_EQ(amd->version, 2);
  EXPECT_NE(amd->find("xgmi", "target", "a"), nullptr);
  const auto nvidia = parseXml(inSystem(gpu), "f.xml");
  ASSERT_OK(nvidia);
  EXPECT_EQ(nvidia->find("xgmi"), nullptr);
}

TEST(Xml, IsWrittenAsNcclWrites) {
  const std::string text =
      "<system version=\"1\">\n  <cpu numaid=\"0\">\n    <pci busid=\"0000:01:00.0\"/>\n  </cpu>\n  <cpu "
      "numaid=\"1\"/>\n</system>\n";
  const auto document = parseXml(text, "f.xml");
  ASSERT_OK(document);
  EXPECT_EQ(writeXml(*document), text);
  const auto quotes = parseXml(inSystem("<cpu a='\"'/>"), "f.xml");
  EXPECT_EQ(writeXml(*quotes), "<system version=\"1\">\n  <cpu a='\"'/>\n</system>\n");
}

TEST(Xml, IsWrittenWithoutControlCharacters) {
  const auto document = parseXml(inSystem("<cpu a='x\x1b[31m\x07' b\x1b='1\n2'/>"), "f.xml");
  ASSERT_OK(document);
  EXPECT_EQ(writeXml(*document), "<system version=\"1\">\n  <cpu a=\"x?[31m?\" b?=\"1\n2\"/>\n</system>\n");
}

TEST(XmlDocument, LookUpsTakeTheFirstMatch) {
  XmlDocument document;
  XmlNode* system = document.add(nullptr, "system");
  XmlNode* first = document.add(system, "cpu");
  XmlNode* second = document.add(system, "cpu");
  first->set("numaid", "0");
  second->set("numaid", "1");
  second->setIfUnset("numaid", "7");
  EXPECT_EQ(document.system(), system);
  EXPECT_EQ(document.find("cpu"), first);
  EXPECT_EQ(document.find("cpu", "numaid", "1"), second);
  EXPECT_EQ(system->child("cpu", "numaid", "1"), second);
  EXPECT_EQ(system->child("pci"), nullptr);
  second->unset("numaid");
  EXPECT_FALSE(second->has("numaid"));
  EXPECT_EQ(second->get("numaid", "none"), "none");
  EXPECT_EQ(first->kind, XmlNodeKind::kNone);
}

TEST(XmlDocument, DetachedNodesStayFindable) {
  auto document = parseXml(inSystem("<cpu a=\"1\"/><cpu a=\"2\"/>"), "f.xml");
  XmlNode* first = document->find("cpu");
  XmlDocument::detach(first);
  EXPECT_EQ(document->system()->children.size(), 1U);
  EXPECT_EQ(document->find("cpu"), first);
  EXPECT_EQ(first->parent, document->system());
}

TEST(XmlDocument, CopiesShareNothing) {
  auto document = parseXml(inSystem("<cpu a=\"1\"><pci/></cpu><cpu a=\"2\"/>"), "f.xml");
  XmlDocument::detach(document->find("cpu"));
  XmlDocument copy = *document;
  ASSERT_EQ(copy.order().size(), document->order().size());
  for (std::size_t i = 0; i < copy.order().size(); i++) EXPECT_NE(copy.order()[i], document->order()[i]);
  EXPECT_EQ(copy.find("cpu")->get("a"), "1");
  EXPECT_EQ(copy.find("pci")->parent, copy.find("cpu"));
  EXPECT_EQ(copy.find("cpu")->parent, copy.system());
  copy.find("cpu")->set("a", "3");
  EXPECT_EQ(document->find("cpu")->get("a"), "1");
}

TEST(XmlDocument, ATreeIsCopiedWithKindsAndPlaces) {
  const auto from = parseXml(inSystem("<cpu a=\"1\"><pci/></cpu>"), "f.xml");
  XmlDocument to;
  const XmlNode* tree = to.copy(to.add(nullptr, "system"), *from->find("cpu"));
  EXPECT_EQ(shape(*tree), shape(*from->find("cpu")));
  EXPECT_EQ(tree->kind, XmlNodeKind::kOpen);
  EXPECT_EQ(tree->position.column, 21);
  EXPECT_EQ(to.order().size(), 3U);
}

TEST(XmlFile, ErrorsNameTheFileAndTheReason) {
  EXPECT_EQ(
      readXmlFile("/nonexistent/t.xml").error(),
      "/nonexistent/t.xml: cannot read it: No such file or directory; check the path and the permissions");
  EXPECT_HAS(readXmlFile("/").error(), "Is a directory");
}

// The shared folder of real machines, with NCCL's own answers.
class Machines : public testing::Test {
 protected:
  void SetUp() override {
    root_ = test::topologiesFolder();
    if (root_.empty()) GTEST_SKIP() << "no folder of topologies";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_ / "machines")) {
      if (entry.path().extension() == ".xml") files_.push_back(entry.path());
    }
  }
  // Whether NCCL's file reader refuses this machine (it fails later for other reasons, too).
  bool ncclRefuses(const std::filesystem::path& file) const {
    auto expected = root_ / "expected" / std::filesystem::relative(file, root_ / "machines");
    std::ifstream answer(expected.replace_extension(".json"));
    const std::string text{std::istreambuf_iterator<char>(answer), {}};
    return text.find("\"error\":\"ncclTopoGetXmlFromFile") != std::string::npos ||
           text.find("\"error\":\"no <system>") != std::string::npos;
  }

  std::filesystem::path root_;
  std::vector<std::filesystem::path> files_;
};

TEST_F(Machines, AreAcceptedAndRefusedAsByNccl) {
  for (const auto& file : files_) {
    const auto document = readXmlFile(file);
    EXPECT_EQ(document.ok(), !ncclRefuses(file)) << file << (document.ok() ? "" : document.error());
  }
}

TEST_F(Machines, ReadTheSameAfterWriting) {
  for (const auto& file : files_) {
    const auto document = readXmlFile(file);
    if (!document.ok()) continue;
    const auto again = parseXml(writeXml(*document), "written");
    ASSERT_OK(again);
    EXPECT_EQ(shape(*again->system()), shape(*document->system())) << file;
  }
}

}  // namespace
}  // namespace railwise::topo
