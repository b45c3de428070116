// Implements a tokenizer with the processor of the SentencePiece library.
#include "data/tokenizers/opening/sentencepiece.hpp"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <map>

#include "core/text.hpp"
#include "data/tokenizers/files/sentencepiece_checks.hpp"
#include "data/tokenizers/files/tokenizer_folder.hpp"
#include "data/tokenizers/opening/special_token_files.hpp"
#include "data/tokenizers/opening/tokenizer_class.hpp"
#include "data/tokenizers/special_tokens.hpp"
#include "data/tokenizers/words/added_words.hpp"

namespace troupe::data {
namespace {

/// The character by which pieces represent a space.
constexpr std::string_view space_piece = "\xE2\x96\x81";
/// Bytes that, appended to a model file, replace the value of its normalizer's add_dummy_prefix (whether a space is
/// added before a text) by true or by false; of two values in a protocol buffer the last one counts.
constexpr std::string_view with_space_before_text("\x1A\x02\x18\x01", 4),
    without_space_before_text("\x1A\x02\x18\x00", 4);

core::result<void> load_into(sentencepiece::SentencePieceProcessor& processor, std::string_view model) {
  const auto status = processor.LoadFromSerializedProto({model.data(), model.size()});
  if (status.ok()) return {};
  return fail(error_kind::bad_input, fmt::format("SentencePiece cannot load the model: {}", status.error_message()));
}

core::result<void> encode_with(const sentencepiece::SentencePieceProcessor& processor, std::string_view text,
                               std::vector<int>& ids) {
  const auto status = processor.Encode({text.data(), text.size()}, &ids);
  if (status.ok()) return {};
  return fail(error_kind::bad_input, fmt::format("SentencePiece cannot encode the text: {}", status.error_message()));
}

class sentencepiece_tokenizer final : public tokenizer {
 public:
  core::result<void> load(std::string_view model, const sentencepiece_shape& shape) {
    TROUPE_TRY(load_into(processor_, model));
    description_.kind = "sentencepiece";
    description_.vocab_size = static_cast<uint64_t>(processor_.GetPieceSize());
    const int eos = processor_.eos_id();
    if (eos >= 0 && processor_.IsControl(eos)) description_.end_of_text = static_cast<uint32_t>(eos);
    description_.digest = digest_of({model});
    TROUPE_TRY(find_cut_signs(shape));
    // Prepares the encoding of further parts: a long text is cut before a sign (a space or line break), so each further
    // part begins with one. If the model removes blanks at the beginning of a text, it also removes that sign, and the
    // space that the model adds before a text replaces it; else the model must add no space.
    has_further_ = !cut_signs_.empty() && shape.adds_space != shape.removes_extra_spaces;
    if (!has_further_) return {};
    const auto other = shape.adds_space ? without_space_before_text : with_space_before_text;
    return load_into(further_, std::string(model) + std::string(other));
  }

  /// Reads the words that the files next to the model add to its vocabulary, and the end-of-text token that they name.
  core::result<void> read_folder(const std::filesystem::path& folder, const sentencepiece_shape& shape) {
    TROUPE_TRY(check_piece_class(folder, shape.adds_space));
    const auto piece_number = [&](std::string_view text) { return number_of_piece(text); };
    TROUPE_TRY(check_piece_numbers(folder, piece_number));
    TROUPE_ASSIGN(auto words, read_added_words(folder));
    const auto piece_of = [&](uint32_t id) {
      const bool is_used = id < pieces() && !processor_.IsUnused(static_cast<int>(id));
      return is_used ? std::string_view(processor_.IdToPiece(static_cast<int>(id))) : std::string_view();
    };
    TROUPE_TRY(check_added_words(folder, words, piece_number, piece_of, "the model"));
    const auto all_words = words;
    std::erase_if(words, [&](const added_word& w) { return number_of_piece(w.text) == w.id; });
    for (const auto& w : words) {
      added_text_[w.id] = w.text;
      description_.vocab_size = std::max<uint64_t>(description_.vocab_size, uint64_t{w.id} + 1);
    }
    const token_finder number_of = [&](std::string_view text) -> std::optional<uint32_t> {
      for (const auto& [id, added] : added_text_)
        if (added == text) return id;
      return number_of_piece(text);
    };
    TROUPE_ASSIGN(const auto special, read_special_tokens(folder, number_of, description_.vocab_size));
    TROUPE_TRY(check_end_of_text(folder, special, "the model"));
    if (special.end) description_.end_of_text = special.end;
    description_.marked = marked_in(special, all_words);
    added_ = added_words(std::move(words), description_.end_of_text);
    if (!added_.is_empty()) description_.digest = digest_of({description_.digest, added_.as_text()});
    return {};
  }

  core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) override {
    return encode_by(processor_, text, out);
  }

  core::result<void> encode_next(std::string_view text, std::vector<uint32_t>& out) override {
    return encode_by(has_further_ ? further_ : processor_, text, out);
  }

  [[nodiscard]] bool may_end_part(std::string_view character) const override {
    // A part must not end with a character that the model removes or rewrites as a blank: a blank before this character
    // would then be next to the cut.
    std::vector<int> ids;
    if (!encode_with(processor_, character, ids) || ids.empty()) return false;
    const std::string_view last = processor_.IdToPiece(ids.back());
    return !last.ends_with(space_piece) && !last.ends_with(' ') && !last.ends_with('\n');
  }

  [[nodiscard]] std::optional<std::string_view> cut_signs() const override { return cut_signs_; }

  [[nodiscard]] bool may_cut(std::string_view text, size_t at) const override { return !added_.lies_across(text, at); }

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

  [[nodiscard]] std::optional<uint32_t> number_of_piece(std::string_view text) const {
    const int id = processor_.PieceToId({text.data(), text.size()});
    if (id < 0 || static_cast<uint64_t>(id) >= pieces()) return std::nullopt;
    return processor_.IdToPiece(id) == text ? std::optional(static_cast<uint32_t>(id)) : std::nullopt;
  }

  /// Sets cut_signs_ to the signs (space, line break) before which a long text may be cut. No piece of the vocabulary
  /// may contain text on both sides of a cut: a sign occurs in a piece only at its beginning, and each sign has a
  /// piece, so the model does not join it with an unknown character before it.
  core::result<void> find_cut_signs(const sentencepiece_shape& shape) {
    if (shape.has_pieces_of_words || shape.ends_pieces_with_space || shape.rewrites_across_a_blank) return {};
    const auto space = number_of_piece(space_piece);
    const bool at_spaces = space && !processor_.IsUnused(static_cast<int>(*space)) && !is_inside_a_piece(space_piece) &&
                           !is_inside_a_piece(" ");
    std::vector<int> joined, at_break, at_space, break_only;
    TROUPE_TRY(encode_with(processor_, "ab", joined));
    TROUPE_TRY(encode_with(processor_, "a\nb", at_break));
    TROUPE_TRY(encode_with(processor_, "a b", at_space));
    TROUPE_TRY(encode_with(processor_, "\n", break_only));
    const bool break_is_space = at_break == at_space && at_break != joined;
    const std::string last = break_only.empty() ? std::string() : processor_.IdToPiece(break_only.back());
    const bool break_is_itself = last == "\n" || last == "<0x0A>";
    // A model that removes blanks at the beginning of a text replaces a removed space by the space that it adds, but it
    // cannot restore a removed line break.
    const bool may_break = break_is_space ? at_spaces : break_is_itself && !shape.removes_extra_spaces;
    cut_signs_ = std::string(at_spaces ? " " : "") + (may_break && !is_inside_a_piece("\n") ? "\n" : "");
    return {};
  }

  /// True if some piece of the vocabulary, which a text may be cut into, contains `sign` after a character other than
  /// `sign`.
  [[nodiscard]] bool is_inside_a_piece(std::string_view sign) const {
    for (int id = 0; static_cast<uint64_t>(id) < pieces(); ++id) {
      std::string_view piece = processor_.IdToPiece(id);
      if (processor_.IsControl(id) || processor_.IsUnknown(id)) continue;
      while (piece.starts_with(sign)) piece.remove_prefix(sign.size());
      if (piece.find(sign) != piece.npos) return true;
    }
    return false;
  }

  core::result<void> encode_by(const sentencepiece::SentencePieceProcessor& processor, std::string_view text,
                               std::vector<uint32_t>& out) {
    if (const auto added = added_.next(text, 0))
      return core::refused(
          fmt::format("the text has the added token '{}', which the SentencePiece model lacks: such tokens are not "
                      "supported yet; remove it from the text or from the tokenizer's files",
                      core::shown(added->word->text)));
    TROUPE_TRY(encode_with(processor, text, ids_));
    for (const int id : ids_) out.push_back(static_cast<uint32_t>(id));
    return {};
  }

  sentencepiece::SentencePieceProcessor processor_;
  sentencepiece::SentencePieceProcessor further_;  ///< encodes parts of a text after the first one, if has_further_
  bool has_further_ = false;
  std::string cut_signs_;
  std::vector<int> ids_;
  /// [number of the token]: text of an added word that the model's pieces lack, or that replaces an unused piece.
  std::map<uint32_t, std::string> added_text_;
  added_words added_;
};

}  // namespace

core::result<void> check_loads(std::string_view model) {
  sentencepiece::SentencePieceProcessor processor;
  return load_into(processor, model);
}

core::result<std::unique_ptr<tokenizer>> open_sentencepiece(const std::filesystem::path& path) {
  TROUPE_ASSIGN(const auto text, read_tokenizer_file(path));
  const auto bytes = std::as_bytes(std::span(text));
  const auto shape = check_sentencepiece_file(bytes);
  if (!shape) return fail(shape.error().in(path.string()));
  auto out = std::make_unique<sentencepiece_tokenizer>();
  if (auto ok = out->load({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, *shape); !ok)
    return fail(ok.error().in(path.string()));
  TROUPE_TRY(out->read_folder(path.parent_path(), *shape));
  return out;
}

}  // namespace troupe::data
