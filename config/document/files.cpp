#include "config/document/files.hpp"

#include <fmt/format.h>

#include <fstream>

#include "config/document/document.hpp"

namespace troupe::config {

std::filesystem::path current_folder() {
  std::error_code failure;
  std::filesystem::path folder = std::filesystem::current_path(failure);
  return failure ? std::filesystem::path(".") : folder;
}

tl::expected<std::string, std::string> read_text(const std::filesystem::path& file) {
  std::error_code failure;
  const auto status = std::filesystem::status(file, failure);
  if (!std::filesystem::exists(status)) return tl::unexpected<std::string>("the file does not exist; check the path");
  if (std::filesystem::is_directory(status)) return tl::unexpected<std::string>("wanted a file, got a folder");
  std::ifstream in(file, std::ios::binary);
  if (!in) return tl::unexpected<std::string>("the file cannot be opened; check its permissions");
  std::string text;
  char block[1 << 16];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<size_t>(in.gcount()));
    if (text.size() > most_file_bytes)
      return tl::unexpected<std::string>(fmt::format("wanted at most {} bytes, got more", most_file_bytes));
  }
  if (in.bad()) return tl::unexpected<std::string>("wanted a readable file, got an error while reading");
  return text;
}

}  // namespace troupe::config
