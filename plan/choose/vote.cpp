#include "plan/choose/vote.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace troupe::plan {
namespace {

bool is_time(double s) { return std::isfinite(s) && s >= 0; }

std::string too_many(size_t prices) {
  return "wanted at most " + std::to_string(vote_prices_max) + " different instructions, got " + std::to_string(prices);
}

// Why nothing can be chosen by this vote; empty: it can.
std::string fault_of(const rank_vote& v) {
  if (!v.failure.empty()) return v.failure;
  if (v.prices.empty()) return "no step was measured";
  if (v.prices.size() > vote_prices_max) return too_many(v.prices.size());
  if (!is_time(v.step_s) || v.step_s == 0) return "wanted the time of a step, got " + std::to_string(v.step_s) + " s";
  const auto wrong = std::ranges::find_if(
      v.prices, [](const price_sum& x) { return !is_time(x.seconds) || !is_time(x.modelled_s) || x.count == 0; });
  if (wrong == v.prices.end()) return {};
  return "wanted the time of every " + std::string(name_of(wrong->kind)) + ", got " + std::to_string(wrong->seconds) +
         " s of " + std::to_string(wrong->count);
}

constexpr size_t words_of_price = 6;

class reader {
 public:
  explicit reader(std::span<const uint64_t> words) : left_(words) {}

  [[nodiscard]] bool has(uint64_t words) const { return words <= left_.size(); }
  uint64_t next() {
    const uint64_t out = left_.front();
    left_ = left_.subspan(1);
    return out;
  }
  double next_double() { return std::bit_cast<double>(next()); }
  [[nodiscard]] bool is_done() const { return left_.empty(); }

 private:
  std::span<const uint64_t> left_;
};

uint64_t tags_of(const price_sum& x) {
  return static_cast<uint64_t>(x.kind) | static_cast<uint64_t>(x.use) << 8 | static_cast<uint64_t>(x.what) << 16 |
         uint64_t{x.near} << 24 | uint64_t{x.again} << 32;
}

bool take_tags(uint64_t tags, price_sum& x) {
  const auto part = [&](uint32_t at) { return static_cast<uint8_t>(tags >> at); };
  x.kind = static_cast<kind>(part(0));
  x.use = static_cast<use>(part(8));
  x.what = static_cast<swapped>(part(16));
  x.near = part(24) != 0;
  x.again = part(32) != 0;
  return x.kind <= kind::swap_out && x.use <= use::weights && x.what <= swapped::activations && tags == tags_of(x);
}

core::result<rank_vote> refuse(const std::string& wanted) {
  return core::fail(core::error_kind::bad_input, "a rank's vote on its measured steps: wanted " + wanted);
}

}  // namespace

joined_votes join(std::span<const rank_vote> votes, uint32_t ranks, const cost_model& costs) {
  joined_votes out;
  const auto fails = [&](uint32_t rank, const std::string& why) {
    if (out.failure.empty()) out.failure = "rank " + std::to_string(rank) + " has no profile: " + why;
  };
  for (uint32_t r = 0; r < ranks; ++r) {
    if (r >= votes.size() || votes[r].rank != r) {
      fails(r, "it has not voted");
      break;
    }
    const auto& v = votes[r];
    if (const auto why = fault_of(v); !why.empty()) fails(r, why);
    if (v.memory_bytes > 0)
      out.memory_bytes = out.memory_bytes == 0 ? v.memory_bytes : std::min(out.memory_bytes, v.memory_bytes);
    out.peak_bytes = std::max(out.peak_bytes, v.peak_bytes);
  }
  if (votes.size() > ranks) fails(ranks, "there is none of this number");
  if (!out.failure.empty()) return out;
  auto prices = std::make_shared<measured_prices>(costs);
  for (const auto& v : votes) {
    out.step_s = std::max(out.step_s, v.step_s);
    for (const auto& x : v.prices) prices->add(x);
  }
  out.prices = std::move(prices);
  return out;
}

std::vector<uint64_t> words_of(const rank_vote& v) {
  const bool fits = v.prices.size() <= vote_prices_max;
  const std::string failure = (fits ? v.failure : too_many(v.prices.size())).substr(0, vote_failure_max);
  std::vector<uint64_t> out = {v.rank, v.memory_bytes, v.peak_bytes, std::bit_cast<uint64_t>(v.step_s), failure.size()};
  for (size_t k = 0; k < failure.size(); k += 8) {
    uint64_t word = 0;
    for (size_t b = k; b < std::min(k + 8, failure.size()); ++b)
      word |= static_cast<uint64_t>(static_cast<uint8_t>(failure[b])) << 8 * (b - k);
    out.push_back(word);
  }
  if (!fits) return out;
  for (const auto& x : v.prices)
    out.insert(out.end(),
               {tags_of(x), static_cast<uint64_t>(x.subject) << 32 | x.segment, std::bit_cast<uint64_t>(x.seconds),
                std::bit_cast<uint64_t>(x.modelled_s), x.bytes, x.count});
  return out;
}

core::result<rank_vote> vote_of(std::span<const uint64_t> words) {
  reader from(words);
  if (!from.has(5)) return refuse("at least 5 numbers, got " + std::to_string(words.size()));
  rank_vote out;
  const uint64_t rank = from.next();
  if (rank >= none) return refuse("a rank, got " + std::to_string(rank));
  out.rank = static_cast<uint32_t>(rank);
  out.memory_bytes = from.next();
  out.peak_bytes = from.next();
  out.step_s = from.next_double();
  const uint64_t text = from.next();
  if (text > vote_failure_max || !from.has((text + 7) / 8))
    return refuse("a text of at most " + std::to_string(vote_failure_max) + " bytes, got " + std::to_string(text));
  for (uint64_t k = 0, word = 0; k < text; ++k, word >>= 8) {
    if (k % 8 == 0) word = from.next();
    out.failure.push_back(static_cast<char>(word & 0xFF));
  }
  while (!from.is_done()) {
    if (!from.has(words_of_price) || out.prices.size() == vote_prices_max)
      return refuse("at most " + std::to_string(vote_prices_max) + " whole prices");
    price_sum& x = out.prices.emplace_back();
    if (!take_tags(from.next(), x)) return refuse("a kind of instruction");
    const uint64_t where = from.next();
    x.subject = static_cast<uint32_t>(where >> 32);
    x.segment = static_cast<uint32_t>(where);
    x.seconds = from.next_double();
    x.modelled_s = from.next_double();
    x.bytes = from.next();
    x.count = from.next();
  }
  return out;
}

}  // namespace troupe::plan
