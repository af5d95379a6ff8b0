// Help texts in the width of a terminal. The sources break their lines where they like.
#pragma once

#include <string>
#include <string_view>

namespace railwise::cli {

// `text` with lines of at most kTextColumns (base/text/text_layout.h), as far as words allow. The lines of a
// paragraph are filled up. A line that begins with a space, with "usage:" or with "Exit status" stands for
// itself; of a row such as "  name  what it is" the text stays in its column.
std::string fitHelp(std::string_view text);

}  // namespace railwise::cli
