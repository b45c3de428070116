#include "data/tokenizers/made_files.hpp"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/source_file.hpp"
#include "data/tokenizers/gguf_tokenizer.hpp"
#include "formats/gguf/header.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr const char* pipeline_name = "tokenizer.json";
constexpr const char* configuration_name = "tokenizer_config.json";
constexpr const char* generation_name = "generation_config.json";
constexpr const char* pieces_name = "tokenizer.model";

bool is_gguf(const fs::path& file) {
  const auto opened = core::source_file::open(file);
  std::array<std::byte, formats::gguf_magic.size()> begin{};
  return opened && opened->size() >= begin.size() && opened->read(0, begin) && formats::begins_like_gguf(begin);
}

std::string text_of_json(const json& j) { return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n"; }

}  // namespace

fs::path tokenizer_file_at(const fs::path& path) {
  std::error_code e;
  return fs::is_regular_file(path, e) && is_gguf(path) ? path : fs::path();
}

bool has_words_in(const fs::path& file) {
  const auto opened = core::source_file::open(file);
  if (!opened) return false;
  const auto header = formats::read_gguf_header(*opened);
  return header && header->metadata.find(gguf_tokens_key) != nullptr;
}

core::result<fs::path> made_vocabulary_in(const fs::path& file) {
  TROUPE_ASSIGN(const auto made, gguf_tokenizer::read(file));
  if (made.has_bytes()) return fs::path();
  return file / (made.has_pieces() ? pieces_name : pipeline_name);
}

core::result<json> made_json(const fs::path& path) {
  const auto file = tokenizer_file_at(path.parent_path());
  if (file.empty()) return json();
  const auto name = path.filename();
  if (name != pipeline_name && name != configuration_name && name != generation_name) return json();
  TROUPE_ASSIGN(const auto made, gguf_tokenizer::read(file));
  if (name == configuration_name) return made.configuration();
  if (name == generation_name) return made.generation();
  return made.pipeline();
}

core::result<std::optional<std::string>> made_bytes(const fs::path& path) {
  const auto file = path.filename() == pieces_name ? tokenizer_file_at(path.parent_path()) : fs::path();
  if (file.empty()) return std::nullopt;
  TROUPE_ASSIGN(const auto made, gguf_tokenizer::read(file));
  if (!made.has_pieces()) return std::nullopt;
  return made.piece_model();
}

core::result<std::vector<made_file>> made_files(const fs::path& file) {
  TROUPE_ASSIGN(const auto made, gguf_tokenizer::read(file));
  TROUPE_ASSIGN(const auto pipeline, made.pipeline());
  std::vector<made_file> out{{pipeline_name, text_of_json(pipeline)},
                             {configuration_name, text_of_json(made.configuration())}};
  if (const auto generation = made.generation(); !generation.is_null())
    out.push_back({generation_name, text_of_json(generation)});
  return out;
}

}  // namespace troupe::data
