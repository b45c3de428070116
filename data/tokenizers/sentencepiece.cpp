// Implements a tokenizer with the processor of the SentencePiece library.
#include "data/tokenizers/sentencepiece.hpp"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <map>

#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "data/tokenizers/added_words.hpp"
#include "data/tokenizers/sentencepiece_file.hpp"
#include "data/tokenizers/special_tokens.hpp"

namespace troupe::data {
namespace {

using core::error_kind;
using core::fail;

class sentencepiece_tokenizer final : public tokenizer {
 public:
  core::result<void> load(std::string_view model) {
    const auto status = processor_.LoadFromSerializedProto({model.data(), model.size()});
    if (!status.ok())
      return fail(error_kind::bad_input,
                  fmt::format("SentencePiece cannot load the model: {}", status.error_message()));
    description_.kind = "sentencepiece";
    description_.vocab_size = static_cast<uint64_t>(processor_.GetPieceSize());
    const int eos = processor_.eos_id();
    if (eos >= 0 && processor_.IsControl(eos)) description_.end_of_text = static_cast<uint32_t>(eos);
    description_.digest = digest_of({model});
    return {};
  }

  /// Reads the added words and the end of text that files next to the model name.
  core::result<void> read_folder(const std::filesystem::path& folder) {
    TROUPE_ASSIGN(auto words, read_added_words(folder));
    const auto is_piece = [&](const added_word& w) {
      return w.id < pieces() && processor_.IdToPiece(static_cast<int>(w.id)) == w.text;
    };
    std::erase_if(words, is_piece);
    for (const auto& w : words) {
      added_text_[w.id] = w.text;
      description_.vocab_size = std::max<uint64_t>(description_.vocab_size, uint64_t{w.id} + 1);
    }
    const token_finder number_of = [&](std::string_view text) -> std::optional<uint32_t> {
      for (const auto& [id, added] : added_text_)
        if (added == text) return id;
      const int id = processor_.PieceToId({text.data(), text.size()});
      if (id < 0 || static_cast<uint64_t>(id) >= pieces()) return std::nullopt;
      return processor_.IdToPiece(id) == text ? std::optional(static_cast<uint32_t>(id)) : std::nullopt;
    };
    TROUPE_ASSIGN(const auto special, read_special_tokens(folder, number_of, description_.vocab_size));
    if (!special.lost_end.empty())
      return core::refused(
          fmt::format("'{}' names '{}' as the end-of-text token, which is neither in the model nor in "
                      "added_tokens.json: add it there, or name another eos_token in tokenizer_config.json",
                      folder.string(), core::shown(special.lost_end)));
    if (special.end) description_.end_of_text = special.end;
    added_ = added_words(std::move(words), description_.end_of_text);
    if (!added_.is_empty()) description_.digest = digest_of({description_.digest, added_.as_text()});
    return {};
  }

  core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) override {
    if (const auto added = added_.next(text, 0))
      return core::refused(
          fmt::format("the text has the added token '{}', which the SentencePiece model lacks: such tokens are not "
                      "supported yet; remove it from the text or from the tokenizer's files",
                      core::shown(added->word->text)));
    const auto status = processor_.Encode({text.data(), text.size()}, &ids_);
    if (!status.ok())
      return fail(error_kind::bad_input,
                  fmt::format("SentencePiece cannot encode the text: {}", status.error_message()));
    for (const int id : ids_) out.push_back(static_cast<uint32_t>(id));
    return {};
  }

  [[nodiscard]] std::string decode(std::span<const uint32_t> ids) const override {
    std::string text;
    std::vector<int> known;
    const auto flush = [&] {
      std::string part;
      if (!known.empty() && processor_.Decode(known, &part).ok()) text += part;
      known.clear();
    };
    for (const uint32_t id : ids) {
      if (const auto added = added_text_.find(id); added != added_text_.end()) {
        flush();
        text += added->second;
      } else if (id < pieces()) {
        known.push_back(static_cast<int>(id));
      }
    }
    flush();
    return text;
  }

 private:
  [[nodiscard]] uint64_t pieces() const { return static_cast<uint64_t>(processor_.GetPieceSize()); }

  sentencepiece::SentencePieceProcessor processor_;
  std::vector<int> ids_;
  /// Text of each word that adds to the model's pieces or replaces one; key: number of the token.
  std::map<uint32_t, std::string> added_text_;
  added_words added_;
};

}  // namespace

core::result<std::unique_ptr<tokenizer>> open_sentencepiece(const std::filesystem::path& path) {
  TROUPE_ASSIGN(const auto file, core::source_file::open(path));
  TROUPE_TRY(core::refuse_lfs_pointer(file));
  if (file.size() > max_tokenizer_bytes)
    return fail(error_kind::limit, fmt::format("the tokenizer file '{}' has {} bytes, more than {}", path.string(),
                                               file.size(), max_tokenizer_bytes));
  TROUPE_ASSIGN(const auto text, file.read_all(max_tokenizer_bytes));
  const auto bytes = std::as_bytes(std::span(text));
  if (const auto shape = check_sentencepiece_file(bytes); !shape) return fail(shape.error().in(path.string()));
  auto out = std::make_unique<sentencepiece_tokenizer>();
  if (auto ok = out->load({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); !ok)
    return fail(ok.error().in(path.string()));
  TROUPE_TRY(out->read_folder(path.parent_path()));
  return out;
}

}  // namespace troupe::data
