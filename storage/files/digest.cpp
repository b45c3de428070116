// Compiles xxHash in, so that the program needs no xxHash library at run time.
#include "storage/files/digest.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include "core/number.hpp"

namespace troupe::storage {

struct digest_stream::state {
  XXH3_state_t xxh;
};

digest128 digest_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

digest_stream::digest_stream() : state_(std::make_unique<state>()) { XXH3_128bits_reset(&state_->xxh); }
digest_stream::~digest_stream() = default;
digest_stream::digest_stream(digest_stream&&) noexcept = default;
digest_stream& digest_stream::operator=(digest_stream&&) noexcept = default;

void digest_stream::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

digest128 digest_stream::value() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return {h.high64, h.low64};
}

std::string to_hex(digest128 d) { return fmt::format("{:016x}{:016x}", d.high, d.low); }

std::optional<digest128> digest_from_hex(std::string_view text) {
  if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  return digest128{*core::number_of<uint64_t>(text.substr(0, 16), 16), *core::number_of<uint64_t>(text.substr(16), 16)};
}

}  // namespace troupe::storage
