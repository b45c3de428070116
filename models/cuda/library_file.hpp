// Where libtroupe_cuda.so lies for a program, and what the dynamic linker's refusal to open it names. No Torch here:
// `troupe doctor` looks, too.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace troupe::models {

inline constexpr const char* cuda_library_file = "libtroupe_cuda.so";

/// The library beside a program in `folder`, or where an installed program or one of a wheel has its libraries; empty:
/// in none of these places.
inline std::filesystem::path find_cuda_library(const std::filesystem::path& folder) {
  std::error_code e;
  const auto libraries = folder.parent_path() / "lib";
  for (const auto& at : {folder, libraries / "troupe", libraries})
    if (std::filesystem::exists(at / cuda_library_file, e)) return at / cuda_library_file;
  return {};
}

/// The command that brings NVIDIA's libraries to where the library `at` finds them.
inline std::string nvidia_installer(const std::filesystem::path& at) {
  const auto folder = at.parent_path(), above = folder.parent_path();
  if (folder.filename() == "lib" && above.filename() == "troupe") return "pip install 'troupe[cuda]'";  // of a wheel
  if (folder.filename() == "troupe" && above.filename() == "lib")
    return "pip install --no-deps --target '" + folder.string() + "' -r '" +
           (above.parent_path() / "share/troupe/requirements-cuda.txt").string() + "'";
  return "make setup DEVICE=cuda";
}

/// The library that the system lacks, out of the dynamic linker's sentence; empty where that says something else.
inline std::string lacking_library(std::string_view said) {
  const auto end = said.find(": cannot open shared object file");
  return std::string(end == std::string_view::npos ? "" : said.substr(0, end));
}

}  // namespace troupe::models
