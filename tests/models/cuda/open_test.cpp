// models/cuda/open.hpp with the library as it is built: what it lacks on this machine is one sentence, and the program
// goes on without it.
#include "models/cuda/open.hpp"

#include <boost/test/unit_test.hpp>

#include "device/backend.hpp"
#include "device/properties.hpp"
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
  BOOST_TEST(said(empty.path()) == "device: cuda wants libtroupe_cuda.so, which is not in '" + empty.path().string() +
                                       "': `make build DEVICE=cuda` builds it; or set device: cpu");
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_library_is_refused_in_the_linkers_words) {
  const tests::scratch_folder folder;
  folder.write("libtroupe_cuda.so", "no library");
  BOOST_TEST(starts(said(folder.path()), "device: cuda wants '" + (folder.path() / "libtroupe_cuda.so").string() +
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

BOOST_AUTO_TEST_SUITE_END()
