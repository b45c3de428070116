// Reads the vocabulary of a SentencePiece model file; field numbers are those of sentencepiece_model.proto.
#include "data/tokenizers/files/sentencepiece_checks.hpp"

#include <fmt/format.h>

#include <cstring>

#include "data/tokenizers/files/wire_reader.hpp"

namespace troupe::data {
namespace {

using bytes = std::span<const std::byte>;

enum model_field : uint64_t { piece_of_model = 1, trainer_options = 2, normaliser_options = 3 };
enum piece_field : uint64_t { piece_text = 1, piece_score = 2, piece_kind = 3 };
enum trainer_option : uint64_t { model_kind = 3, unknown_id = 40, begin_id = 41, end_id = 42, padding_id = 43 };
enum normaliser_field : uint64_t { table = 2, adds_space = 3, removes_spaces = 4, writes_spaces = 5 };
enum kind_of_model : uint64_t { unigram = 1, byte_pairs = 2 };

std::string text_in(bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

/// Calls `each` for every field of a message, which an earlier check has found valid.
void for_fields(bytes message, auto&& each) {
  for (wire_reader in(message); !in.at_end();) {
    const auto field = in.next();
    if (!field) return;
    each(*field);
  }
}

vocabulary_entry entry_of(bytes message) {
  vocabulary_entry out;
  for_fields(message, [&](const wire_reader::field& f) {
    if (f.number == piece_text) out.text = text_in(f.bytes);
    if (f.number == piece_score && f.bytes.size() == sizeof out.score)
      std::memcpy(&out.score, f.bytes.data(), sizeof out.score);
    if (f.number == piece_kind && f.value >= 1 && f.value <= 6) out.kind = static_cast<token_kind>(f.value);
  });
  return out;
}

/// Numbers of special tokens as the trainer writes them: int32, -1 for a missing one.
struct special_ids {
  int32_t unknown = 0, begin = 1, end = 2, padding = -1;
};

}  // namespace

core::result<vocabulary> pieces_of(bytes file) {
  TROUPE_ASSIGN(const auto shape, check_sentencepiece_file(file));
  vocabulary out;
  special_ids ids;
  uint64_t kind = unigram;
  out.adds_space = out.removes_extra_spaces = true;
  out.ends_pieces_with_space = shape.ends_pieces_with_space;
  for_fields(file, [&](const wire_reader::field& f) {
    if (f.number == piece_of_model) out.entries.push_back(entry_of(f.bytes));
    if (f.number == trainer_options)
      for_fields(f.bytes, [&](const wire_reader::field& t) {
        const auto id = static_cast<int32_t>(t.value);
        if (t.number == model_kind) kind = t.value;
        if (t.number == unknown_id) ids.unknown = id;
        if (t.number == begin_id) ids.begin = id;
        if (t.number == end_id) ids.end = id;
        if (t.number == padding_id) ids.padding = id;
      });
    if (f.number == normaliser_options)
      for_fields(f.bytes, [&](const wire_reader::field& n) {
        if (n.number == table) out.normaliser = text_in(n.bytes);
        if (n.number == adds_space) out.adds_space = n.value != 0;
        if (n.number == removes_spaces) out.removes_extra_spaces = n.value != 0;
        if (n.number == writes_spaces) out.keeps_spaces = n.value == 0;
      });
  });
  if (kind != unigram && kind != byte_pairs)
    return fail(error_kind::bad_input, fmt::format("a SentencePiece model of kind {}, wanted unigram or BPE", kind));
  out.kind = kind == unigram ? vocabulary_kind::sentencepiece_unigram : vocabulary_kind::sentencepiece_bpe;
  const auto token = [&](int32_t id) {
    return id < 0 || static_cast<size_t>(id) >= out.entries.size() ? std::nullopt
                                                                   : std::optional(static_cast<uint32_t>(id));
  };
  out.special.unknown = token(ids.unknown);
  out.special.begin = token(ids.begin);
  out.special.end = token(ids.end);
  out.special.padding = token(ids.padding);
  return out;
}

}  // namespace troupe::data
