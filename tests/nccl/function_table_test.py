"""How functions.py reads the table and NCCL's lists, and what it finds wrong, with small stand-ins. Usage: function_table_test.py"""
import pathlib
import shutil
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import functions  # noqa: E402
import host_library  # noqa: E402
from functions import IN_PART, MISSING, STUB, WHOLE, Listed  # noqa: E402
from unavailable import Broken  # noqa: E402

PAGE = """# A page
| about | `notRead` |
## CUDA driver
| what for | functions |
|---|---|
| devices | `cuInit` (2.31), `cuDeviceGet` |

| functions | state | what cannot run without them |
|---|---|---|
| `cuMulticastCreate` | stub | NVLS |
| `cuMemCreate` | in part | fabric handles |
## NVML
| the library | `nvmlInit` |
## Something else
| no library | `notRead` |
"""
TABLE = functions.table(PAGE)


class Table(unittest.TestCase):
    def test_has_functions_with_state_and_release(self):
        self.assertEqual(TABLE, {"CUDA driver": {"cuInit": Listed(WHOLE, (2, 31)), "cuDeviceGet": Listed(WHOLE, ()),
                                                 "cuMulticastCreate": Listed(STUB, (), "NVLS"),
                                                 "cuMemCreate": Listed(IN_PART, (), "fabric handles")},
                                 "NVML": {"nvmlInit": Listed(WHOLE, ())}})

    def test_has_a_function_once(self):
        with self.assertRaisesRegex(Broken, "cuDeviceGet stands there twice"):
            functions.table(PAGE.replace("`cuMemCreate`", "`cuDeviceGet`"))

    def test_has_no_other_state(self):
        with self.assertRaisesRegex(Broken, "no state: half"):
            functions.table(PAGE.replace("| in part |", "| half |"))


class AgainstNccl(unittest.TestCase):
    def complaints(self, names, release=(2, 29), in_source=()):
        return functions.against_nccl(TABLE, {"CUDA driver": set(names)}, release, in_source.__contains__)

    def test_equal(self):
        self.assertEqual(self.complaints(["cuDeviceGet", "cuMulticastCreate", "cuMemCreate"]), [])
        self.assertEqual(self.complaints(["cuInit", "cuDeviceGet", "cuMulticastCreate", "cuMemCreate"], (2, 31)), [])

    def test_a_function_that_the_table_lacks(self):
        self.assertEqual(self.complaints(["cuDeviceGet", "cuMulticastCreate", "cuMemCreate", "cuNew"]),
                         ["CUDA driver: NCCL looks up cuNew, and the table does not have it"])

    def test_a_function_before_its_release(self):
        self.assertEqual(self.complaints(["cuInit", "cuDeviceGet", "cuMulticastCreate", "cuMemCreate"]),
                         ["CUDA driver: NCCL looks up cuInit, and the table does not have it"])

    def test_a_function_without_need(self):
        self.assertEqual(self.complaints(["cuMulticastCreate", "cuMemCreate"]),
                         ["CUDA driver: the table has cuDeviceGet, which NCCL does not look up"])

    def test_the_runtime_has_names_for_other_versions_of_cuda(self):
        listed = {"CUDA runtime": {"cudaOne": Listed(WHOLE, ()), "cudaOther": Listed(WHOLE, ())}}
        wanted = {"CUDA runtime": {"cudaOne"}}
        self.assertEqual(functions.against_nccl(listed, wanted, (2, 29), {"cudaOther"}.__contains__), [])
        self.assertEqual(functions.against_nccl(listed, wanted, (2, 29), set().__contains__),
                         ["CUDA runtime: the table has cudaOther, which NCCL does not look up"])


class AgainstLibraries(unittest.TestCase):
    def complaints(self, said, found, why="something", limited=(), library="NVML"):
        return functions.against_libraries({library: {"nvmlInit": Listed(said, (), why)}}, lambda library, name: found, limited, set().__contains__)

    def test_equal(self):
        for said, found in ((WHOLE, WHOLE), (IN_PART, WHOLE), (STUB, STUB), (MISSING, MISSING)):
            self.assertEqual(self.complaints(said, found), [])

    def test_different(self):
        for said in (WHOLE, IN_PART, STUB, MISSING):
            for found in {WHOLE, STUB, MISSING} - {WHOLE if said == IN_PART else said}:
                self.assertEqual(self.complaints(said, found), [f"NVML: the table says that nvmlInit is {said}, and it is {found}"])

    def test_older_headers_of_cuda_lack_a_function(self):
        self.assertEqual(self.complaints(WHOLE, MISSING, library="CUDA driver"), [])
        self.assertEqual(len(self.complaints(WHOLE, STUB, library="CUDA driver")), 1)

    def test_what_is_not_whole_has_a_reason(self):
        self.assertEqual(self.complaints(STUB, STUB, why=""), ["NVML: the table does not say what cannot run without nvmlInit"])

    def test_what_has_limits_is_not_whole(self):
        self.assertEqual(self.complaints(IN_PART, WHOLE, limited={"nvmlInit"}), [])
        self.assertEqual(len(self.complaints(WHOLE, WHOLE, limited={"nvmlInit"})), 1)


class Lists(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = self.folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_are_those_of_nccls_sources(self):
        self.write("misc/cudawrap.cc", "#define LOAD_SYM(symbol, version, ignore)\n  LOAD_SYM(cuDeviceGet, 2000, 0);\n  LOAD_SYM(cuNew, 13030, 1);\n")
        self.write("misc/nvmlwrap.cc", '  {(void**)&pfn_nvmlInit, "nvmlInit"},\n  WARN("nvmlInit%s() failed", "_v2");\n')
        self.write("misc/gdrwrap.cc", 'LOAD_SYM(gdrhandle, "gdr_open", f);\nLOAD_SYM_OPTIONAL(gdrhandle, "gdr_pin_buffer_v2", f);\nWARN("gdr_close() failed");\n')
        self.write("a/doca_x_gdrcopy.cpp", 'DOCA_LOAD_SYM(handle, "gdr_map", table->map);\n')
        self.write("a/doca_x_cuda_wrapper.cpp", 'p = (f)get_cuda_symbol("cuCtxGetCurrent");\n')
        host = host_library.Host("nccl", "2.31.2", self.folder, self.folder, self.folder)
        with unittest.mock.patch.object(functions, "undefined", return_value={"cudaFree", "cudaGetDeviceProperties_v2"}):
            self.assertEqual(functions.looked_up(host), {
                "CUDA driver": {"cuDeviceGet", "cuNew"}, "CUDA runtime": {"cudaFree", "cudaGetDeviceProperties"}, "NVML": {"nvmlInit"},
                "GDRCopy": {"gdr_open", "gdr_pin_buffer_v2", "gdr_map"}, "libcuda": {"cuCtxGetCurrent"}})


if __name__ == "__main__":
    unittest.main()
