// Checks the protocol buffer fields of a SentencePiece model file, without the library.
#include "data/tokenizers/files/sentencepiece_checks.hpp"

#include <fmt/format.h>

#include <string>

#include "data/tokenizers/files/wire_reader.hpp"
#include "data/tokenizers/text/sentencepiece_rules.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {
namespace {

enum field_number : uint64_t { pieces = 1, trainer = 2, normalizer = 3, denormalizer = 5 };
/// Field numbers in the protocol buffer of a model's normalizer.
enum normalizer_field : uint64_t { table_of_rules = 2, space_before_text = 3, no_extra_spaces = 4 };
/// Field numbers in the protocol buffer of a model's trainer options.
enum trainer_field : uint64_t { kind_of_pieces = 3, space_as_suffix = 24 };
/// Value of kind_of_pieces for a model whose pieces are words.
constexpr uint64_t words = 3;

/// True for a valid piece: it has a text (1); score (2) and type (3) are optional.
bool is_piece(std::span<const std::byte> bytes) {
  wire_reader in(bytes);
  bool text = false;
  while (!in.at_end()) {
    const auto f = in.next();
    if (!f) return false;
    if (f->number == 1) text = f->wire == lengthy && !f->bytes.empty();
  }
  return text;
}

/// Returns why a normalizer's table is invalid, and stores the normalizer's options in `shape`; of several values the
/// library uses the last.
std::string_view read_normalizer(std::span<const std::byte> bytes, sentencepiece_shape& shape) {
  wire_reader in(bytes);
  while (!in.at_end()) {
    const auto f = in.next();
    if (!f) return "a normalizer that is cut short";
    if (f->number == space_before_text) shape.adds_space = f->value != 0;
    if (f->number == no_extra_spaces) shape.removes_extra_spaces = f->value != 0;
    if (f->number != table_of_rules) continue;
    if (f->wire != lengthy) return "a normalizer's table of another type";
    if (const auto fault = fault_in_rules(f->bytes, &shape.rewrites_across_a_blank); !fault.empty()) return fault;
  }
  return {};
}

/// Stores in `shape` the options of a trainer on which encoding depends.
void read_trainer(std::span<const std::byte> bytes, sentencepiece_shape& shape) {
  wire_reader in(bytes);
  while (!in.at_end()) {
    const auto f = in.next();
    if (!f) return;
    if (f->number == kind_of_pieces) shape.has_pieces_of_words = f->value == words;
    if (f->number == space_as_suffix) shape.ends_pieces_with_space = f->value != 0;
  }
}

}  // namespace

core::result<sentencepiece_shape> check_sentencepiece_file(std::span<const std::byte> file) {
  sentencepiece_shape shape;
  bool has_trainer = false;
  bool has_normalizer = false;
  wire_reader in(file);
  const auto wrong = [&](size_t at, const std::string& why) {
    return fail(error_kind::bad_input,
                fmt::format("wanted a SentencePiece model, got {} at byte {} of {}, after {} pieces", why, at,
                            file.size(), shape.pieces));
  };
  while (!in.at_end()) {
    const size_t start = in.at();
    const auto field = in.next();
    if (!field) return wrong(start, "a broken or cut field");
    if (field->number <= normalizer && field->wire != lengthy) return wrong(start, "a field of another type");
    if (field->number == pieces) {
      if (!is_piece(field->bytes)) return wrong(start, "a piece without text");
      if (++shape.pieces > max_vocabulary) return wrong(start, "more pieces than any vocabulary has");
    }
    sentencepiece_shape of_denormalizer;
    if ((field->number == normalizer || field->number == denormalizer) && field->wire == lengthy)
      if (const auto fault = read_normalizer(field->bytes, field->number == normalizer ? shape : of_denormalizer);
          !fault.empty())
        return wrong(start, std::string(fault));
    if (field->number == trainer) read_trainer(field->bytes, shape);
    has_trainer |= field->number == trainer;
    has_normalizer |= field->number == normalizer;
  }
  if (shape.pieces == 0) return wrong(file.size(), "no pieces");
  if (!has_trainer || !has_normalizer) return wrong(file.size(), "an end before the trainer and the normalizer");
  return shape;
}

}  // namespace troupe::data
