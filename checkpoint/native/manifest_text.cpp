#include "checkpoint/native/manifest_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/native/manifest_body.hpp"
#include "checkpoint/native/manifest_tree.hpp"
#include "core/number.hpp"

namespace troupe::checkpoint {
namespace {

constexpr std::string_view line_begin = R"({"format":"troupe checkpoint","version":)";
constexpr std::string_view line_digest = R"(,"digest":")";
constexpr std::string_view line_end = "\",\n";

struct written_version {
  uint32_t value = 0;
  size_t digits = 0;  ///< number of digits of the version in the text; 0: the text has no version
};

/// Returns the version in the first line of a text that begins as a manifest.
written_version version_of(std::string_view text) {
  text.remove_prefix(line_begin.size());
  std::string_view rest = text;
  const auto value = core::take_number<uint32_t>(rest);
  return {value.value_or(0), text.size() - rest.size()};
}

}  // namespace

std::string sealed(std::string_view body, uint32_t version) {
  return fmt::format("{}{}{}{}{}{}", line_begin, version, line_digest, storage::to_hex(storage::digest_of(body)),
                     line_end, body);
}

bool looks_like_manifest(std::string_view first_bytes) { return first_bytes.starts_with(line_begin); }

core::result<storage::digest128> seal_of(std::string_view text) {
  const auto bad = [](std::string why) { return fail(error_kind::bad_input, std::move(why)); };
  if (!looks_like_manifest(text)) return bad("it does not begin like the manifest of a Troupe checkpoint");
  const auto [version, digits] = version_of(text);
  if (digits == 0) return bad("its first line has no version");
  if (version > manifest_version)
    return fail(error_kind::mismatch,
                fmt::format("it has version {}, this program reads versions up to {}", version, manifest_version));
  text.remove_prefix(line_begin.size() + digits);
  const size_t line_bytes = line_digest.size() + 32 + line_end.size();
  if (version == 0 || text.size() < line_bytes || !text.starts_with(line_digest) ||
      text.substr(line_digest.size() + 32, line_end.size()) != line_end)
    return bad("its first line is damaged");
  const auto digest = storage::digest_from_hex(text.substr(line_digest.size(), 32));
  if (!digest) return bad("its first line is damaged");
  text.remove_prefix(line_bytes);
  if (storage::digest_of(text) != *digest)
    return bad(fmt::format("its {} bytes after the first line do not match the digest {}", text.size(),
                           storage::to_hex(*digest)));
  return *digest;
}

core::result<std::string> format_manifest(const manifest& m) {
  TROUPE_TRY(check_manifest(m));
  TROUPE_TRY(check_client_state(m.run.client_state));
  std::string text;
  try {
    text = sealed(manifest_body(m), manifest_version_for(m));
  } catch (const nlohmann::json::exception&) {
    return fail(error_kind::bad_input, "a name or a text of the run state is not UTF-8");
  }
  if (text.size() > max_manifest_bytes)
    return fail(error_kind::limit,
                fmt::format("it would take {} bytes, at most {} are read", text.size(), max_manifest_bytes));
  return text;
}

core::result<manifest> parse_manifest(std::string_view text) {
  if (text.size() > max_manifest_bytes)
    return fail(error_kind::limit,
                fmt::format("it has {} bytes, at most {} are read", text.size(), max_manifest_bytes));
  TROUPE_TRY(seal_of(text));
  TROUPE_ASSIGN(auto out, read_manifest_tree(text, version_of(text).value > 1));
  TROUPE_TRY(check_manifest(out));
  TROUPE_TRY(check_client_state(out.run.client_state));
  return out;
}

}  // namespace troupe::checkpoint
