#include "data/tokenizers/files/stored_file.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "core/json_text.hpp"
#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

core::result<std::string> stored_text(const std::filesystem::path& path) {
  TROUPE_ASSIGN(const auto file, core::source_file::open(path));
  TROUPE_TRY(core::refuse_lfs_pointer(file));
  if (file.size() > max_tokenizer_bytes)
    return core::fail(core::error_kind::limit, fmt::format("the tokenizer file '{}' has {} bytes, more than {}",
                                                           path.string(), file.size(), max_tokenizer_bytes));
  return file.read_all(max_tokenizer_bytes);
}

core::result<nlohmann::json> object_in_text(const std::filesystem::path& path, const std::string& text) {
  auto out = core::parse_json(text, max_tokenizer_json_depth);
  if (!out) return core::refused(fmt::format("'{}': wanted one JSON object, got {}", path.string(), out.error().why));
  if (!out->is_object()) return core::refused(fmt::format("'{}': wanted one JSON object", path.string()));
  return std::move(*out);
}

core::result<nlohmann::json> stored_object_if_there(const std::filesystem::path& path) {
  std::error_code e;
  if (!std::filesystem::exists(path, e)) return nlohmann::json();
  TROUPE_ASSIGN(const auto text, stored_text(path));
  return object_in_text(path, text);
}

}  // namespace troupe::data
