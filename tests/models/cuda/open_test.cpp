// Tests models/cuda/open.hpp with the library as it is built: the error names what this machine lacks, and the program
// continues without the library.
#include "models/cuda/open.hpp"

#include <ATen/Context.h>

#include <boost/test/unit_test.hpp>

#include "device/backend.hpp"
#include "device/properties.hpp"
#include "models/cuda/library_file.hpp"
#include "models/cuda/use.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(open)

using namespace troupe;

namespace {

namespace fs = std::filesystem;

std::string said(const fs::path& folder) {
  const auto ok = models::open_cuda(folder);
  return ok ? "" : ok.error().text;
}

bool starts(const std::string& text, const std::string& head) { return text.starts_with(head); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_folder_without_the_library_is_named_with_what_builds_it) {
  const tests::scratch_folder empty;
  BOOST_TEST(said(empty.path()) ==
             "device: cuda requires libtroupe_cuda.so, which is not in '" + empty.path().string() +
                 "': `make build DEVICE=cuda` builds it, Debian's package `troupe-cuda` and Troupe's wheel have it; "
                 "or set device: cpu");
}

BOOST_AUTO_TEST_CASE(nvidias_libraries_are_installed_where_the_library_that_lacks_them_finds_them) {
  BOOST_TEST(models::nvidia_installer("/src/build/release/libtroupe_cuda.so") == "make setup DEVICE=cuda");
  BOOST_TEST(models::nvidia_installer("/venv/lib/python3.11/site-packages/troupe/lib/libtroupe_cuda.so") ==
             "pip install 'troupe[cuda]'");
  BOOST_TEST(models::nvidia_installer("/usr/lib/troupe/libtroupe_cuda.so") ==
             "pip install --no-deps --target '/usr/lib/troupe' -r '/usr/share/troupe/requirements-cuda.txt'");
}

BOOST_AUTO_TEST_CASE(a_program_finds_the_library_beside_itself_or_where_an_installed_one_has_it) {
  const tests::scratch_folder tree;
  const fs::path bin = tree.path() / "bin";
  BOOST_TEST(models::find_cuda_library(bin).empty());
  for (const char* place : {"lib/libtroupe_cuda.so", "lib/troupe/libtroupe_cuda.so", "bin/libtroupe_cuda.so"}) {
    BOOST_TEST_INFO_SCOPE(place);
    tree.write(place, "");
    BOOST_TEST(models::find_cuda_library(bin) == tree.path() / place);
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_library_is_refused_in_the_linkers_words) {
  const tests::scratch_folder folder;
  folder.write("libtroupe_cuda.so", "no library");
  BOOST_TEST(starts(said(folder.path()), "device: cuda requires '" + (folder.path() / "libtroupe_cuda.so").string() +
                                             "', which cannot be opened: "));
}

BOOST_AUTO_TEST_CASE(the_library_is_opened_without_a_driver_and_says_that_there_is_none) {
  const fs::path built = fs::path(places::troupe_binary).parent_path();
  if (!fs::exists(built / "libtroupe_cuda.so"))
    return tests::say_skipped("devices of kind cuda", "there was no nvcc, so libtroupe_cuda.so is not built");
  const std::string why = said(built);
  if (why.find("which this system lacks") != std::string::npos) {
    BOOST_TEST(why.find("`make setup DEVICE=cuda` installs it beside LibTorch") != std::string::npos, why);
    BOOST_TEST((device::provided(device::device_kind::cuda) == nullptr));
    return tests::say_skipped("opening libtroupe_cuda.so", "NVIDIA's libraries are not there; make setup DEVICE=cuda");
  }
  BOOST_TEST((device::provided(device::device_kind::cuda) != nullptr));
  if (why.empty()) return tests::say_skipped("what a missing driver leads to", "this machine has a GPU that works");
  BOOST_TEST((starts(why, "device cuda:0: no NVIDIA driver is loaded: install one for CUDA 13.0 or later") ||
              starts(why, "device cuda:0: the NVIDIA driver") || starts(why, "device cuda:0: no GPU is visible")),
             why);
  BOOST_TEST(said(built) == why);
}

// The test case requires that an earlier one has opened the library.
BOOST_AUTO_TEST_CASE(settings_of_a_session_are_torchs_while_it_is_open) {
  if (device::provided(device::device_kind::cuda) == nullptr)
    return tests::say_skipped("settings of LibTorch", "libtroupe_cuda.so was not opened");
  const device::device_id gpu{device::device_kind::cuda};
  at::Context& torch = at::globalContext();
  const bool tf32 = torch.allowTF32CuBLAS(), deterministic = torch.deterministicAlgorithms();
  const bool fills = torch.deterministicFillUninitializedMemory();
  const auto reduction = torch.allowBF16ReductionCuBLAS();
  for (const bool on : {true, false}) {
    BOOST_TEST_INFO_SCOPE("on " << on);
    const auto use = models::cuda_use::begin(gpu, {.tf32 = on, .deterministic = on});
    BOOST_REQUIRE(use);
    BOOST_TEST(at::globalContext().allowTF32CuBLAS() == on);
    BOOST_TEST(at::globalContext().deterministicAlgorithms() == on);
    BOOST_TEST(!at::globalContext().deterministicAlgorithmsWarnOnly());
    if (device::check(gpu)) continue;
    const auto shared = (*use)->share_memory(uint64_t{1} << 30);
    BOOST_REQUIRE(!shared);
    BOOST_TEST(starts(shared.error().text, "device cuda:0: the limit of the GPU's memory cannot be set: "),
               shared.error().text);
    BOOST_TEST(shared.error().text.find('\n') == std::string::npos);
  }
  BOOST_TEST((torch.allowTF32CuBLAS() == tf32 && torch.deterministicAlgorithms() == deterministic));
  BOOST_TEST((torch.deterministicFillUninitializedMemory() == fills && torch.allowBF16ReductionCuBLAS() == reduction));
}

BOOST_AUTO_TEST_CASE(a_share_of_memory_is_a_part_of_all_that_there_is) {
  BOOST_TEST(models::part_of_memory(uint64_t{2} << 30, uint64_t{8} << 30) == 0.25);
  BOOST_TEST(models::part_of_memory(0, uint64_t{8} << 30) == 0.0);
  BOOST_TEST(models::part_of_memory(uint64_t{9} << 30, uint64_t{8} << 30) == 1.0);
  BOOST_TEST(models::part_of_memory(UINT64_MAX, 0) == 1.0);
}

BOOST_AUTO_TEST_SUITE_END()
