#include "actors/loading/data_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "core/math.hpp"
#include "core/text.hpp"
#include "data/masking.hpp"

namespace troupe::actors {
namespace {

core::result<storage::digest128> digest_of_tokens(const data::token_stream& from, uint64_t most) {
  const uint64_t all = from.size();
  const uint64_t blocks = std::max<uint64_t>(2, most / digested_block_tokens);
  const bool whole = all <= blocks * digested_block_tokens;
  const uint64_t count = whole ? core::div_up(all, digested_block_tokens) : blocks;
  std::vector<int64_t> block(digested_block_tokens);
  storage::digest_stream digest;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t last = all - std::min(all, digested_block_tokens);
    const uint64_t first =
        whole ? i * digested_block_tokens : last / (count - 1) * i + last % (count - 1) * i / (count - 1);
    const auto part = std::span(block).first(std::min(digested_block_tokens, all - first));
    TROUPE_TRY(from.copy(first, part));
    digest.add(std::as_bytes(part));
  }
  if (const auto& rows = from.packed()) digest.add(std::as_bytes(std::span(rows->recipe)));
  if (from.selects_targets()) digest.add(std::as_bytes(from.counted_borders()));
  return digest.value();
}

/// Returns the index of the first token of the validation part, as data::split_tokens divides a text of `tokens`
/// tokens.
uint64_t cut_of(uint64_t tokens, double validation_fraction) {
  return tokens - static_cast<uint64_t>(std::floor(static_cast<double>(tokens) * validation_fraction));
}

formats::masking_record masking_record_of(const data::masking_options& o) {
  return {.probability = o.probability,
          .mask = o.mask,
          .random = o.random,
          .mask_token = o.mask_token,
          .vocabulary = o.vocabulary,
          .special = storage::digest_of(std::as_bytes(std::span(o.special)))};
}

/// Returns a few words for each difference between two choices of the tokens that an encoder has to find.
std::vector<std::string> differences_of(const formats::masking_record& was, const formats::masking_record& now) {
  std::vector<std::string> out;
  const auto check = [&out](const char* key, auto before, auto after) {
    if (before != after) out.push_back(fmt::format("data.masking.{} is {}, was {}", key, after, before));
  };
  check("probability", was.probability, now.probability);
  check("mask", was.mask, now.mask);
  check("random", was.random, now.random);
  check("mask_token_id", was.mask_token, now.mask_token);
  if (was.vocabulary != now.vocabulary)
    out.push_back(fmt::format("data.masking draws from {} tokens, drew from {}", now.vocabulary, was.vocabulary));
  // the mask token is one of the special tokens
  if (was.special != now.special && was.mask_token == now.mask_token)
    out.push_back("data.masking spares other special tokens than before");
  return out;
}

std::string shown_end(std::optional<uint32_t> token) {
  return token ? fmt::format("token {}", *token) : std::string("no token");
}

}  // namespace

core::result<formats::data_record> record_of(const data::corpus& corpus, const std::vector<std::string>& names,
                                             double validation_fraction, const std::string& tokenizer) {
  formats::data_record out{.sequence_length = corpus.sequence(),
                           .validation_fraction = validation_fraction,
                           .tokenizer = tokenizer,
                           .sources = {}};
  for (size_t i = 0; i < corpus.sources(); ++i) {
    const auto& stream = corpus.source(i);
    TROUPE_ASSIGN(const auto digest, digest_of_tokens(stream, digested_tokens / corpus.sources()));
    out.sources.push_back({i < names.size() ? names[i] : "", corpus.shares()[i], stream.size(), digest});
    if (stream.maker()) out.end_of_text.emplace(stream.maker()->tokenizer.end_of_text);
  }
  for (size_t i = corpus.sources(); i < corpus.streams(); ++i) {
    const auto& stream = corpus.stream(i);
    TROUPE_ASSIGN(const auto digest, digest_of_tokens(stream, digested_set_tokens));
    const size_t set = corpus.validation_sets() - corpus.streams() + i;  // sets that are texts are the last ones
    out.validation.push_back({corpus.validation_name(set), stream.size(), digest});
  }
  out.shuffled = corpus.shuffle() == data::sample_shuffle::each_epoch;
  out.document_mask = corpus.document_mask();
  if (corpus.masking() != nullptr) out.masking = masking_record_of(corpus.masking()->options());
  return out;
}

data_change compare(const formats::data_record& was, const formats::data_record& now) {
  data_change out;
  const auto differs = [&out](std::string words) { out.differences.push_back(std::move(words)); };
  if (was.sequence_length != now.sequence_length)
    differs(fmt::format("data.sequence_length is {}, was {}", now.sequence_length, was.sequence_length));
  if (was.validation_fraction != now.validation_fraction)
    differs(fmt::format("data.validation_fraction is {}, was {}", now.validation_fraction, was.validation_fraction));
  if (was.shuffled != now.shuffled) differs(fmt::format("data.shuffle is {}, was {}", now.shuffled, was.shuffled));
  if (was.sources.size() != now.sources.size())
    differs(fmt::format("data has {} sources, had {}", now.sources.size(), was.sources.size()));
  bool other_tokens = false;
  for (size_t i = 0; i < std::min(was.sources.size(), now.sources.size()); ++i) {
    const auto &before = was.sources[i], &after = now.sources[i];
    const std::string name = core::shown(after.name);
    if (before.tokens != after.tokens)
      differs(fmt::format("'{}' has {} tokens, had {}", name, after.tokens, before.tokens));
    else if (before.digest != after.digest)
      differs(fmt::format("'{}' holds other tokens than '{}' did", name, core::shown(before.name)));
    if (before.share != after.share && was.sources.size() == now.sources.size())
      differs(fmt::format("the share of '{}' is {}, was {}", name, after.share, before.share));
    other_tokens = other_tokens || before.tokens != after.tokens || before.digest != after.digest;
    const uint64_t trained = std::min(cut_of(before.tokens, was.validation_fraction), after.tokens);
    const uint64_t validates = cut_of(after.tokens, now.validation_fraction);
    if (trained > validates) out.validates_trained += trained - validates;
  }
  if (other_tokens && was.tokenizer != now.tokenizer) differs("data.tokenizer is not the same");
  if (was.end_of_text && now.end_of_text && *was.end_of_text != *now.end_of_text)
    differs(
        fmt::format("documents end with {}, ended with {}", shown_end(*now.end_of_text), shown_end(*was.end_of_text)));
  out.has_other_order = !out.differences.empty();
  for (const auto& after : now.validation) {
    const auto before = std::ranges::find(was.validation, after.set, &formats::validation_record::set);
    if (before != was.validation.end() && (before->tokens != after.tokens || before->digest != after.digest))
      differs(fmt::format("the set {} of data.validation holds other tokens than before", core::shown(after.set)));
  }
  if (was.document_mask && now.document_mask && *was.document_mask != *now.document_mask)
    differs(fmt::format("data.document_mask is {}, was {}", *now.document_mask, *was.document_mask));
  if (was.masking && now.masking)
    for (auto& words : differences_of(*was.masking, *now.masking)) differs(std::move(words));
  return out;
}

std::string sentence_of(const data_change& change, uint64_t sample) {
  std::string out = fmt::format("continues at sample {} of the present data", sample);
  out += change.has_other_order ? ", in their new order" : ", in the same order";
  if (change.validates_trained > 0)
    out += fmt::format("; {} tokens of the validation part may have been trained on", change.validates_trained);
  return out;
}

}  // namespace troupe::actors
