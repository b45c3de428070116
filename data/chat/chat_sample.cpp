#include "data/chat/chat_sample.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace troupe::data {
namespace {

/// Adds tokens [begin, end) to the tokens that count, but for token 0; joins them with those that end where they begin.
void count_tokens(std::vector<token_span>& counted, uint64_t begin, uint64_t end) {
  begin = std::max<uint64_t>(begin, 1);
  if (begin >= end) return;
  if (!counted.empty() && counted.back().end >= begin)
    counted.back().end = std::max(counted.back().end, end);
  else
    counted.push_back({begin, end});
}

}  // namespace

core::result<size_t> tokens_before(tokenizer& by, std::string_view text, std::span<const uint32_t> all, size_t at) {
  if (at == 0) return size_t{0};
  if (at >= text.size()) return all.size();
  std::vector<uint32_t> head;
  TROUPE_TRY(by.encode(text.substr(0, at), head));
  const auto same = static_cast<size_t>(std::ranges::mismatch(all, head).in1 - all.begin());
  if (same == head.size()) return same;
  const size_t bytes = by.decode(head).size();
  size_t out = std::min(same + 1, all.size());
  while (out < all.size() && by.decode(all.first(out)).size() < bytes) ++out;
  return out;
}

core::result<chat_sample> sample_of(const chat_format& by, const rendered_conversation& from) {
  chat_sample out;
  auto& tokenizer = by.tokenizer();
  TROUPE_TRY(tokenizer.encode(from.text, out.tokens));
  for (const auto& part : from.counted) {
    TROUPE_ASSIGN(const size_t begin, tokens_before(tokenizer, from.text, out.tokens, part.begin));
    TROUPE_ASSIGN(const size_t end, tokens_before(tokenizer, from.text, out.tokens, part.end));
    count_tokens(out.counted, begin, end);
  }
  if (const auto end = by.end_of_text(); end && from.ends_text) {
    out.tokens.push_back(*end);
    count_tokens(out.counted, out.tokens.size() - 1, out.tokens.size());
  }
  return out;
}

chat_sample sample_of(labelled_tokens from) {
  chat_sample out;
  for (size_t i = 0; i < from.counts.size(); ++i)
    if (from.counts[i]) count_tokens(out.counted, i, i + 1);
  out.tokens = std::move(from.tokens);
  return out;
}

std::vector<counted_text> texts_of(const chat_sample& x, const tokenizer& by) {
  const std::span<const uint32_t> tokens(x.tokens);
  std::vector<counted_text> out;
  uint64_t at = 0;
  const auto add = [&](uint64_t end, bool counts) {
    if (end > at) out.push_back({by.decode(tokens.subspan(at, end - at)), counts});
    at = std::max(at, end);
  };
  for (const auto& one : x.counted) {
    add(one.begin, false);
    add(one.end, true);
  }
  add(tokens.size(), false);
  return out;
}

void cut_sample(chat_sample& x, uint64_t most) {
  if (x.tokens.size() <= most) return;
  x.tokens.resize(most);
  for (auto& one : x.counted) one.end = std::min(one.end, most);
  std::erase_if(x.counted, [](const token_span& one) { return one.begin >= one.end; });
}

uint64_t counted_tokens(const chat_sample& x) {
  uint64_t out = 0;
  for (const auto& one : x.counted) out += one.end - one.begin;
  return out;
}

}  // namespace troupe::data
