// The GPU that the tests of this program need. Without one the program says so in one sentence and ends with 77, which
// ctest counts as skipped.
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

/// libtroupe_cuda.so is there for every name, as in a host that links troupe::cuda. A linked library would keep this
/// program from starting where one of NVIDIA's is missing, which is then a sentence, too.
core::result<void> find_gpu() {
  if (::dlopen("libcuda.so.1", RTLD_LAZY) == nullptr)
    return core::fail(core::error_kind::limit, "this machine has no GPU: no NVIDIA driver is loaded");
  // build/PRESET/tests/gpu/tests_gpu
  const auto build = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path();
  // Where this fails, open_cuda says why.
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
