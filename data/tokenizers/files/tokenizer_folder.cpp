// Reads files of a tokenizer's folder as text or JSON. Files of a folder that one file of another program stands for
// are made (made_files.hpp).
#include "data/tokenizers/files/tokenizer_folder.hpp"

#include <utility>

#include "data/tokenizers/files/made_files.hpp"
#include "data/tokenizers/files/stored_file.hpp"

namespace troupe::data {

core::result<std::string> read_tokenizer_file(const std::filesystem::path& path) {
  TROUPE_ASSIGN(auto made, made_bytes(path));
  if (made) return std::move(*made);
  return stored_text(path);
}

core::result<nlohmann::json> read_json_object(const std::filesystem::path& path) {
  TROUPE_ASSIGN(auto made, made_json(path));
  if (!made.is_null()) return made;
  TROUPE_ASSIGN(const auto text, read_tokenizer_file(path));
  return object_in_text(path, text);
}

core::result<nlohmann::json> read_json_if_there(const std::filesystem::path& path) {
  TROUPE_ASSIGN(auto made, made_json(path));
  if (!made.is_null()) return made;
  return stored_object_if_there(path);
}

}  // namespace troupe::data
