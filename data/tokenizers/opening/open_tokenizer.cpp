#include "data/tokenizers/opening/open_tokenizer.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "core/tokenizer_kinds.hpp"
#include "data/tokenizers/files/made_files.hpp"
#include "data/tokenizers/files/tokenizer_folder.hpp"
#include "data/tokenizers/opening/byte_pair_files.hpp"
#include "data/tokenizers/opening/pipeline_tokenizer.hpp"
#include "data/tokenizers/opening/sentencepiece.hpp"
#include "data/tokenizers/opening/special_token_files.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "data/tokenizers/words/added_words.hpp"
#include "data/tokenizers/words/byte_pair.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

/// Returns, for an error, the files of an unsupported tokenizer in `folder`, such as ", got vocab.txt of WordPiece"; an
/// empty text if there are none.
std::string others_in(const fs::path& folder) {
  constexpr std::pair<const char*, const char*> others[] = {{"vocab.txt", "WordPiece"}, {"tekken.json", "Mistral"}};
  std::error_code ec;
  for (const auto& [name, of] : others)
    if (fs::exists(folder / name, ec)) return fmt::format(", got {} of {}", name, of);
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec))
    if (at->path().extension() == ".tiktoken")
      return fmt::format(", got {} of tiktoken", core::shown(at->path().filename().string()));
  return "";
}

/// Opens a tokenizer.json.
core::result<std::unique_ptr<tokenizer>> open_pipeline(const fs::path& path, special_words special) {
  TROUPE_ASSIGN(const auto keys, read_json_object(path));
  TROUPE_ASSIGN(const bool needs_steps, needs_pipeline(path, keys, special));
  if (needs_steps) return open_pipeline_tokenizer(path, keys, special);
  TROUPE_ASSIGN(const auto v, read_vocabulary(path));
  if (!v.objection.empty()) return core::refused(fmt::format("'{}': {}", path.string(), v.objection));
  if (!v.fault.empty()) return core::refused(fmt::format("'{}' is {}", path.string(), v.fault));
  const auto folder = path.parent_path();
  TROUPE_TRY(check_end_of_text(folder, v.special, "tokenizer.json"));
  TROUPE_ASSIGN(auto words, read_added_words(folder));
  TROUPE_TRY(check_rules_of_added_words(folder, words, v.rules));
  auto marked = marked_in(v.special, words);
  if (special == special_words::tokens) {
    auto named = v.special.named;
    if (v.special.end) named.push_back(*v.special.end);
    const auto text_of = [&](uint32_t t) {
      return t < v.entries.size() ? std::string_view(v.entries[t].text) : std::string_view();
    };
    add_named_words(named, text_of, words);
  }
  std::vector<std::string> texts;
  for (const auto& e : v.entries) texts.push_back(e.text);
  added_words added(std::move(words), v.special.end, special);
  auto made = byte_pair_of(texts, v.merges, v.special.end, std::move(added), v.rules);
  if (!made) return fail(made.error().in(fmt::format("'{}'", path.string())));
  (*made)->mark(std::move(marked));
  return made;
}

/// Opens a SentencePiece model, whose library finds no special tokens in a text.
core::result<std::unique_ptr<tokenizer>> open_pieces(const fs::path& model, special_words special) {
  if (special == special_words::ordinary) return open_sentencepiece(model);
  return core::refused(
      fmt::format("'{}': wanted a folder with tokenizer.json, because a chat template writes special tokens as text, "
                  "which a SentencePiece model alone does not find; save the tokenizer with transformers",
                  model.string()));
}

/// Opens the tokenizer that `file` contains as a whole (made_files.hpp).
core::result<std::unique_ptr<tokenizer>> open_made(const fs::path& file, special_words special) {
  const kept_files kept;
  TROUPE_ASSIGN(const auto vocabulary, made_vocabulary_in(file));
  if (vocabulary.empty()) return make_byte_tokenizer();
  return vocabulary.extension() == ".model" ? open_pieces(vocabulary, special) : open_pipeline(vocabulary, special);
}

}  // namespace

core::result<std::unique_ptr<tokenizer>> open_tokenizer(const fs::path& path, special_words special) {
  if (path.empty()) return make_byte_tokenizer();
  std::error_code ec;
  const auto status = fs::status(path, ec);
  if (!fs::exists(status))
    return fail(error_kind::bad_input,
                fmt::format("cannot read the tokenizer '{}': No such file or directory", path.string()));
  if (const auto file = tokenizer_file_at(path); !file.empty()) return open_made(file, special);
  if (fs::is_directory(status)) {
    const bool has_steps = fs::exists(path / "tokenizer.json", ec), has_words = fs::exists(path / "vocab.json", ec);
    const bool reads_steps = has_steps && special == special_words::tokens;
    if (has_piece_model(path) && !has_words && !reads_steps) return open_pieces(path / "tokenizer.model", special);
    if (has_steps && !has_words) return open_pipeline(path / "tokenizer.json", special);
    if (!has_vocabulary(path) && !fs::exists(path / "vocab.json", ec))
      return core::refused(fmt::format("'{}' holds no supported tokenizer: wanted {}{}", path.string(),
                                       core::tokenizer_kinds, others_in(path)));
    // Only tokenizer.json states how texts are prepared; its words and merges may be in the other two files.
    TROUPE_ASSIGN(const auto keys, read_json_if_there(path / "tokenizer.json"));
    TROUPE_ASSIGN(const bool needs_steps, needs_pipeline(path / "tokenizer.json", keys, special));
    if (!needs_steps) return open_byte_pair(path / "vocab.json", path / "merges.txt", special);
    TROUPE_TRY(check_words_beside(path));
    return open_pipeline_tokenizer(path / "tokenizer.json", keys, special);
  }
  if (path.filename() == "vocab.json") return open_byte_pair(path, path.parent_path() / "merges.txt", special);
  if (path.filename() == "tokenizer.json") return open_pipeline(path, special);
  if (path.extension() == ".model") return open_pieces(path, special);
  return core::refused(
      fmt::format("the tokenizer '{}' is of an unknown kind: wanted {}", path.string(), core::tokenizer_kinds));
}

}  // namespace troupe::data
