#include "data/tokenizers/files/made_files.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/source_file.hpp"
#include "data/tokenizers/files/gguf_tokenizer.hpp"
#include "data/tokenizers/files/ranked_words.hpp"
#include "data/tokenizers/files/stored_file.hpp"
#include "data/tokenizers/files/tekken_file.hpp"
#include "data/tokenizers/files/tiktoken_file.hpp"
#include "formats/gguf/header.hpp"

namespace troupe::data {

struct kept_files::contents {
  std::map<std::filesystem::path, nlohmann::json> files;
};

namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr const char* pipeline_name = "tokenizer.json";
constexpr const char* configuration_name = "tokenizer_config.json";
constexpr const char* generation_name = "generation_config.json";
constexpr const char* pieces_name = "tokenizer.model";

/// Kind of a file that contains a whole tokenizer.
enum class file_kind : uint8_t { none, gguf, tiktoken, tekken };

bool is_gguf(const fs::path& file) {
  const auto opened = core::source_file::open(file);
  std::array<std::byte, formats::gguf_magic.size()> begin{};
  return opened && opened->size() >= begin.size() && opened->read(0, begin) && formats::begins_like_gguf(begin);
}

std::string text_of_json(const json& j) { return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n"; }

file_kind kind_of_file(const fs::path& file) {
  std::error_code e;
  if (!fs::is_regular_file(file, e)) return file_kind::none;
  const auto name = file.filename().string();
  if (name.ends_with(".json")) return name.starts_with("tekken") ? file_kind::tekken : file_kind::none;
  if (name.ends_with(".tiktoken")) return file_kind::tiktoken;
  if (name == pieces_name && is_tiktoken_list(file)) return file_kind::tiktoken;
  return is_gguf(file) ? file_kind::gguf : file_kind::none;
}

/// Returns the only file of `folder` that contains a whole tokenizer and is no GGUF file; empty if there is none, or
/// several.
fs::path only_file_in(const fs::path& folder) {
  fs::path out;
  std::error_code e;
  for (fs::directory_iterator at(folder, e), end; !e && at != end; at.increment(e)) {
    const auto name = at->path().filename().string();
    if (name != pieces_name && name != "tekken.json" && !name.ends_with(".tiktoken")) continue;
    if (kind_of_file(at->path()) == file_kind::none) continue;
    if (!out.empty()) return {};
    out = at->path();
  }
  return out;
}

/// Returns the made file `name` for a list of words, which states nothing but its words.
core::result<json> made_for_list(file_kind kind, const fs::path& file, const fs::path& name) {
  if (name == pipeline_name) {
    if (kind == file_kind::tekken) return tekken_pipeline(file);
    TROUPE_ASSIGN(const auto words, read_tiktoken(file));
    auto made = pipeline_of(words);
    if (!made) return fail(made.error().in(fmt::format("'{}'", file.string())));
    return made;
  }
  if (name != configuration_name) return stored_object_if_there(file.parent_path() / name);
  auto keys = kind == file_kind::tekken ? tekken_configuration(file) : tiktoken_configuration(file);
  const auto chat = file.parent_path() / "chat_template.jinja";
  std::error_code e;
  if (!keys || keys->contains("chat_template") || !fs::exists(chat, e)) return keys;
  TROUPE_ASSIGN(auto text, stored_text(chat));
  (*keys)["chat_template"] = std::move(text);
  return keys;
}

/// Makes the JSON file `path`, as made_json() returns it.
core::result<json> make_json(const fs::path& path) {
  const auto file = path.parent_path(), name = path.filename();
  const auto kind = kind_of_file(file);
  if (kind == file_kind::none) return json();
  if (kind != file_kind::gguf) return made_for_list(kind, file, name);
  if (name != pipeline_name && name != configuration_name && name != generation_name) return json();
  TROUPE_ASSIGN(const auto made, gguf_tokenizer::read(file));
  if (name == configuration_name) return made.configuration();
  if (name == generation_name) return made.generation();
  return made.pipeline();
}

/// Files that the thread keeps; null outside of kept_files.
thread_local kept_files::contents* kept_now = nullptr;

}  // namespace

kept_files::kept_files() {
  if (kept_now != nullptr) return;
  own_ = std::make_unique<contents>();
  kept_now = own_.get();
}

kept_files::~kept_files() {
  if (own_) kept_now = nullptr;
}

fs::path tokenizer_file_at(const fs::path& path) {
  std::error_code e;
  if (!fs::is_directory(path, e)) return kind_of_file(path) == file_kind::none ? fs::path() : path;
  if (fs::exists(path / pipeline_name, e) || fs::exists(path / "vocab.json", e)) return {};
  return only_file_in(path);
}

bool is_gguf_with_words(const fs::path& path) { return kind_of_file(path) == file_kind::gguf && has_words_in(path); }

bool has_piece_model(const fs::path& folder) {
  std::error_code e;
  return fs::exists(folder / pieces_name, e) && kind_of_file(folder / pieces_name) != file_kind::tiktoken;
}

bool has_words_in(const fs::path& file) {
  if (kind_of_file(file) != file_kind::gguf) return true;
  const auto opened = core::source_file::open(file);
  if (!opened) return false;
  const auto header = formats::read_gguf_header(*opened);
  return header && header->metadata.find(gguf_tokens_key) != nullptr;
}

core::result<fs::path> made_vocabulary_in(const fs::path& file) {
  if (kind_of_file(file) != file_kind::gguf) return file / pipeline_name;
  TROUPE_ASSIGN(const auto made, gguf_tokenizer::read(file));
  if (made.has_bytes()) return fs::path();
  return file / (made.has_pieces() ? pieces_name : pipeline_name);
}

core::result<json> made_json(const fs::path& path) {
  if (kept_now == nullptr) return make_json(path);
  if (const auto at = kept_now->files.find(path); at != kept_now->files.end()) return at->second;
  auto made = make_json(path);
  if (made && !made->is_null()) kept_now->files.emplace(path, *made);
  return made;
}

core::result<std::optional<std::string>> made_bytes(const fs::path& path) {
  const auto file = path.parent_path();
  if (path.filename() != pieces_name || kind_of_file(file) != file_kind::gguf) return std::nullopt;
  TROUPE_ASSIGN(const auto made, gguf_tokenizer::read(file));
  if (!made.has_pieces()) return std::nullopt;
  return made.piece_model();
}

core::result<std::vector<made_file>> made_files(const fs::path& file) {
  TROUPE_ASSIGN(const auto made, gguf_tokenizer::read(file));
  TROUPE_TRY(made.check_pipeline_is_exact());
  TROUPE_ASSIGN(const auto pipeline, made.pipeline());
  std::vector<made_file> out{{pipeline_name, text_of_json(pipeline)},
                             {configuration_name, text_of_json(made.configuration())}};
  if (const auto generation = made.generation(); !generation.is_null())
    out.push_back({generation_name, text_of_json(generation)});
  return out;
}

}  // namespace troupe::data
