// Where libtroupe_cuda.so lies for a program, and what the dynamic linker's refusal to open it names. No Torch here:
// `troupe doctor` looks, too.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace troupe::models {

inline constexpr const char* cuda_library_file = "libtroupe_cuda.so";

/// The library beside a program in `folder`, or where an installed program has its libraries; empty: in neither place.
inline std::filesystem::path find_cuda_library(const std::filesystem::path& folder) {
  std::error_code e;
  for (const auto& at : {folder / cuda_library_file, folder.parent_path() / "lib" / cuda_library_file})
    if (std::filesystem::exists(at, e)) return at;
  return {};
}

/// The library that the system lacks, out of the dynamic linker's sentence; empty where that says something else.
inline std::string lacking_library(std::string_view said) {
  const auto end = said.find(": cannot open shared object file");
  return std::string(end == std::string_view::npos ? "" : said.substr(0, end));
}

}  // namespace troupe::models
