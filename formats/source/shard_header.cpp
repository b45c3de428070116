#include "formats/source/shard_header.hpp"

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <utility>

#include "core/number.hpp"

namespace troupe::formats {
namespace {

using core::error_kind;
using core::fail;

constexpr std::string_view magic("troupe shard\n\0\0\0", 16);
constexpr size_t version_at = 16, length_at = 20, high_at = 24, low_at = 32;
constexpr size_t seal_at = shard_header_bytes - 16;

template <class T>
void put(std::span<std::byte> to, size_t at, T value) {
  std::memcpy(&to[at], &value, sizeof(value));  // little-endian, like every machine that Troupe builds for
}
template <class T>
T get(std::span<const std::byte> from, size_t at) {
  T value;
  std::memcpy(&value, &from[at], sizeof(value));
  return value;
}

}  // namespace

std::array<std::byte, shard_header_bytes> make_shard_header(storage::digest128 save_id) {
  std::array<std::byte, shard_header_bytes> out{};
  std::memcpy(out.data(), magic.data(), magic.size());
  put(out, version_at, shard_version);
  put(out, length_at, static_cast<uint32_t>(shard_header_bytes));
  put(out, high_at, save_id.high);
  put(out, low_at, save_id.low);
  const auto seal = storage::digest_of(std::span<const std::byte>(out).first(seal_at));
  put(out, seal_at, seal.high);
  put(out, seal_at + 8, seal.low);
  return out;
}

std::string shard_file_name(uint32_t number) { return fmt::format("shard-{:05}.bin", number); }

std::optional<uint32_t> shard_number_of(std::string_view name) {
  constexpr std::string_view head = "shard-";
  if (!name.starts_with(head)) return std::nullopt;
  std::string_view rest = name.substr(head.size());
  const auto number = core::take_number<uint32_t>(rest);
  return number && shard_file_name(*number) == name ? number : std::nullopt;
}

core::result<void> check_shard(const storage::input_file& file, const std::filesystem::path& path,
                               const shard_file& expected, storage::digest128 save_id) {
  const auto bad = [&](std::string why) {
    return fail(error_kind::bad_input, fmt::format("'{}': {}", path.string(), why));
  };
  if (file.bytes() != expected.bytes)
    return bad(fmt::format("it has {} bytes, but its manifest states {}", file.bytes(), expected.bytes));
  std::array<std::byte, shard_header_bytes> header{};
  TROUPE_TRY(storage::read_exactly(file, path, 0, header));
  if (std::memcmp(header.data(), magic.data(), magic.size()) != 0)
    return bad("it does not begin like a data file of a Troupe checkpoint (bytes 0 to 15)");
  if (const auto version = get<uint32_t>(header, version_at); version > shard_version)
    return fail(error_kind::mismatch, fmt::format("'{}': it has version {}, this program reads versions up to {}",
                                                  path.string(), version, shard_version));
  if (header != make_shard_header(storage::digest128{get<uint64_t>(header, high_at), get<uint64_t>(header, low_at)}))
    return bad(fmt::format("its header (bytes 0 to {}) is damaged", shard_header_bytes - 1));
  if (header != make_shard_header(save_id)) return bad("it belongs to another save than its manifest");
  return {};
}

}  // namespace troupe::formats
