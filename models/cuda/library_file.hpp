// Finds libtroupe_cuda.so for a program, and the name of a missing file in the dynamic linker's error. Uses no Torch,
// because `troupe doctor` includes it, too.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace troupe::models {

inline constexpr const char* cuda_library_file = "libtroupe_cuda.so";

/// Returns the path of libtroupe_cuda.so for a program in `folder`: in the same folder, or in the library folder of an
/// installed program or of a wheel; empty if none of these folders has it.
inline std::filesystem::path find_cuda_library(const std::filesystem::path& folder) {
  std::error_code e;
  const auto libraries = folder.parent_path() / "lib";
  for (const auto& at : {folder, libraries / "troupe", libraries})
    if (std::filesystem::exists(at / cuda_library_file, e)) return at / cuda_library_file;
  return {};
}

/// Returns the shell command that installs NVIDIA's libraries where the library file `at` finds them.
inline std::string nvidia_installer(const std::filesystem::path& at) {
  const auto folder = at.parent_path(), above = folder.parent_path();
  // The library is part of an installed wheel.
  if (folder.filename() == "lib" && above.filename() == "troupe") return "pip install 'troupe[cuda]'";
  if (folder.filename() == "troupe" && above.filename() == "lib")
    return "pip install --no-deps --target '" + folder.string() + "' -r '" +
           (above.parent_path() / "share/troupe/requirements-cuda.txt").string() + "'";
  return "make setup DEVICE=cuda";
}

/// Returns the name of the missing library from the dynamic linker's error; empty if the error has another cause.
inline std::string lacking_library(std::string_view said) {
  const auto end = said.find(": cannot open shared object file");
  return std::string(end == std::string_view::npos ? "" : said.substr(0, end));
}

}  // namespace troupe::models
