#include "data/tokenizers/files/sentencepiece_writer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string_view>
#include <utility>

#include "data/tokenizers/files/wire_reader.hpp"

namespace troupe::data {
namespace {

void put_number(std::string& out, uint64_t x) {
  for (; x >= 0x80; x >>= 7) out.push_back(static_cast<char>((x & 0x7F) | 0x80));
  out.push_back(static_cast<char>(x));
}

/// Appends the field `number` with a whole number; a negative one has 64 bits.
void put_whole(std::string& out, uint64_t number, int64_t x) {
  put_number(out, number << 3 | varint);
  put_number(out, static_cast<uint64_t>(x));
}

void put_text(std::string& out, uint64_t number, std::string_view text) {
  put_number(out, number << 3 | lengthy);
  put_number(out, text.size());
  out += text;
}

void put_float(std::string& out, uint64_t number, float x) {
  put_number(out, number << 3 | four_bytes);
  const auto bits = std::bit_cast<uint32_t>(x);
  for (unsigned shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(bits >> shift & 0xFF));
}

/// Number and text of the field that names a special piece, for each of them in the order of piece_model_options.
constexpr std::array<std::pair<uint64_t, uint64_t>, 4> special_fields{{{40, 45}, {41, 46}, {42, 47}, {43, 48}}};
/// Text of a special piece that the model does not have; no piece of a vocabulary has it.
constexpr std::string_view no_piece = "\x01";

}  // namespace

std::string sentencepiece_model_of(std::span<const vocabulary_entry> pieces, const piece_model_options& options) {
  enum model_field : uint64_t { piece = 1, trainer = 2, normalizer = 3 };
  constexpr int64_t unigram = 1, byte_pairs = 2;
  std::string out;
  for (const auto& p : pieces) {
    std::string message;
    put_text(message, 1, p.text);
    put_float(message, 2, p.score);
    put_whole(message, 3, static_cast<int64_t>(p.kind));
    put_text(out, piece, message);
  }
  std::string of_trainer;
  put_whole(of_trainer, 3, options.is_unigram ? unigram : byte_pairs);
  put_whole(of_trainer, 4, static_cast<int64_t>(pieces.size()));
  put_whole(of_trainer, 35, std::ranges::any_of(pieces, [](const auto& p) { return p.kind == token_kind::byte; }));
  const std::array tokens{options.unknown, options.begin, options.end, options.padding};
  for (size_t i = 0; i < tokens.size(); ++i) {
    put_whole(of_trainer, special_fields[i].first, tokens[i] ? int64_t{*tokens[i]} : -1);
    put_text(of_trainer, special_fields[i].second, tokens[i] ? std::string_view(pieces[*tokens[i]].text) : no_piece);
  }
  put_text(out, trainer, of_trainer);
  std::string of_normalizer;
  put_text(of_normalizer, 1, options.rules.empty() ? "identity" : "user_defined");
  if (!options.rules.empty()) put_text(of_normalizer, 2, options.rules);
  put_whole(of_normalizer, 3, options.adds_space ? 1 : 0);
  put_whole(of_normalizer, 4, options.removes_extra_spaces ? 1 : 0);
  put_whole(of_normalizer, 5, 1);
  put_text(out, normalizer, of_normalizer);
  return out;
}

}  // namespace troupe::data
