#include "models/cuda/open.hpp"

#include <dlfcn.h>

#include <string>

#include "device/properties.hpp"
#include "device/stream.hpp"
#include "models/cuda/library.hpp"
#include "models/cuda/library_file.hpp"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

/// Returns the error for a library that could not be opened: the dynamic linker's message, or, if a file is missing,
/// only that file's name.
core::error not_opened(const fs::path& at) {
  const char* const said = ::dlerror();
  const std::string why = said == nullptr ? "" : said;
  const std::string lacking = lacking_library(why);
  if (lacking.empty())
    return {core::error_kind::limit, "device: cuda requires '" + at.string() + "', which cannot be opened: " + why};
  return {core::error_kind::limit, "device: cuda requires " + lacking + ", which this system lacks: `" +
                                       nvidia_installer(at) + "` installs it beside LibTorch"};
}

core::result<void*> opened(const fs::path& folder) {
  const fs::path at = find_cuda_library(folder);
  if (at.empty())
    return core::fail(core::error_kind::limit,
                      "device: cuda requires " + std::string(cuda_library_file) + ", which is not in '" +
                          folder.string() +
                          "': `make build DEVICE=cuda` builds it, Debian's package `troupe-cuda` and "
                          "Troupe's wheel have it; or set device: cpu");
  // The library is never closed, because LibTorch keeps pointers to what the library registers.
  void* const library = ::dlopen(at.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return core::fail(not_opened(at));
  return library;
}

template <class Function>
Function* function_in(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

void* stream_of_thread(uint32_t index) { return device::stream::current({device::device_kind::cuda, index}).native(); }

core::result<void> take(void* library) {
  const auto shape = function_in<cuda_shape_function>(library, cuda_shape_name);
  const auto tables = function_in<cuda_library_function>(library, cuda_library_name);
  const cuda_shape mine{TROUPE_VERSION};
  const cuda_shape theirs = shape == nullptr ? cuda_shape{""} : shape();
  if (tables == nullptr || theirs != mine)
    return core::fail(core::error_kind::mismatch, std::string(cuda_library_file) +
                                                      " is of another build of Troupe than this program: `make build "
                                                      "DEVICE=cuda` builds both");
  const cuda_library all =
      tables({.cpu = device::provided(device::device_kind::cpu), .current_stream = stream_of_thread});
  device::provide(device::device_kind::cuda, *all.devices);
  kernels::provide(device::device_kind::cuda, *all.kernels);
  provide(device::device_kind::cuda, *all.products);
  provide(device::device_kind::cuda, *all.attention);
  provide(*all.process);
  return {};
}

bool is_provided() { return device::provided(device::device_kind::cuda) != nullptr; }

}  // namespace

core::result<void> take_linked_cuda() {
  if (is_provided() || ::dlsym(RTLD_DEFAULT, cuda_library_name) == nullptr) return {};
  return take(RTLD_DEFAULT);
}

core::result<void> open_cuda(const fs::path& folder, uint32_t index) {
  TROUPE_TRY(take_linked_cuda());
  if (!is_provided()) {
    TROUPE_ASSIGN(auto library, opened(folder));
    TROUPE_TRY(take(library));
  }
  return device::check({device::device_kind::cuda, index});
}

}  // namespace troupe::models
