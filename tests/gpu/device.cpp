// Looks for the GPU that the tests of this program need. Without a GPU the program prints the reason in one sentence
// and exits with code 77, which ctest counts as skipped.
#include <dlfcn.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>

#include "models/cuda/library_file.hpp"
#include "models/cuda/open.hpp"
#include "tests/skipped.hpp"

namespace {

using namespace troupe;

constexpr int skipped_code = 77;

/// Loads libtroupe_cuda.so with all its symbols visible, as in a host program that links troupe::cuda. The library is
/// not linked, because this program could then not start where one of NVIDIA's libraries is missing; such a machine
/// gets a sentence, too.
core::result<void> find_gpu() {
  if (::dlopen("libcuda.so.1", RTLD_LAZY) == nullptr)
    return core::fail(core::error_kind::limit, "this machine has no GPU: no NVIDIA driver is loaded");
  // The program's path is build/PRESET/tests/gpu/tests_gpu.
  const auto build = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path();
  // If the library cannot be loaded, open_cuda reports the reason.
  ::dlopen((build / models::cuda_library_file).c_str(), RTLD_NOW | RTLD_GLOBAL);
  return models::open_cuda(build);
}

struct needed_gpu {
  needed_gpu() {
    const auto found = find_gpu();
    if (found) return;
    tests::say_skipped("whole sessions on a GPU", found.error().text);
    std::_Exit(skipped_code);
  }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(needed_gpu);
