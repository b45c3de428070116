#include "sim/seeds.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::sim {
namespace {

/// The seed that for_seeds() tries at the moment in this thread.
thread_local std::optional<uint64_t> tried_seed;

std::optional<uint64_t> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const auto number = core::number_of<uint64_t>(text);
  if (!number || *number == UINT64_MAX)
    throw world_error({core::error_kind::bad_input,
                       std::string(variable) + ": wanted a number from 0 to 2^64 - 2, got " + core::json_string(text)});
  return number;
}

/// Returns the command line of this process, its arguments in quotes where a shell would read them otherwise.
std::string command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::string out;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\0', at), all.size());
    const std::string word = all.substr(at, end - at);
    const bool is_plain = !word.empty() && std::ranges::all_of(word, [](char c) {
      return core::is_ascii_word(c) || std::string_view("_-./=,:+@").find(c) != std::string_view::npos;
    });
    if (!out.empty()) out += ' ';
    if (is_plain) {
      out += word;
    } else {
      out += '\'';
      for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
      out += '\'';
    }
    at = end + 1;
  }
  return out;
}

}  // namespace

std::pair<uint64_t, uint64_t> seeds_to_try(uint64_t usual) {
  if (const auto one = number_in("TROUPE_SEED"); one) return {*one, *one + 1};
  return {0, number_in("TROUPE_SEEDS").value_or(usual)};
}

std::string replay_command(uint64_t seed) {
  if (tried_seed != seed) return {};
  return "TROUPE_SEED=" + std::to_string(seed) + " " + command_line();
}

seed_scope::seed_scope(uint64_t seed) { tried_seed = seed; }
seed_scope::~seed_scope() { tried_seed.reset(); }

verdict verdict_of_seed(uint64_t seed, bool holds) {
  if (holds) return {true, "seed " + std::to_string(seed)};
  return {false, "the check of seed " + std::to_string(seed) + " failed\n  replay: " + replay_command(seed)};
}

}  // namespace troupe::sim
