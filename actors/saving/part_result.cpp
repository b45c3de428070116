// Encodes messages of a save: a letter for the type, the fields in order as core/byte_stream.hpp encodes them, then the
// digest of all bytes before it.
#include "actors/saving/part_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/byte_stream.hpp"

namespace troupe::core {

void fields(auto& f, error& x) { f(x.kind, x.text); }

}  // namespace troupe::core

namespace troupe::storage {

void fields(auto& f, digest128& x) { f(x.high, x.low); }

}  // namespace troupe::storage

namespace troupe::actors {

void fields(auto& f, part_result& x) { f(x.rank, x.file_bytes, x.waited_s, x.digests, x.failure); }

namespace {

/// The first letter of encoded bytes, which marks their type.
enum class mark : char { part = 'p', invitation = 'i', request = 'r' };

std::string sealed(mark what, const std::string& content) {
  std::string out(1, static_cast<char>(what));
  out += content;
  return out + core::as_bytes(storage::digest_of(out));
}

/// Returns the content of bytes that sealed() has made; none if they are of another type or were changed.
std::optional<std::string_view> opened(mark what, std::string_view bytes) {
  constexpr size_t digest_bytes = sizeof(storage::digest128);
  if (bytes.size() <= digest_bytes || bytes.front() != static_cast<char>(what)) return std::nullopt;
  const auto content = bytes.substr(0, bytes.size() - digest_bytes);
  if (core::from_bytes<storage::digest128>(bytes.substr(content.size())) != storage::digest_of(content))
    return std::nullopt;
  return content.substr(1);
}

tl::unexpected<core::error> refused(const char* what, std::string_view got) {
  return core::fail(error_kind::bad_input,
                    fmt::format("wanted {} as another process encodes it, got {} bytes that are cut short or changed",
                                what, got.size()));
}

/// Reads the fields of a message of type `what` from `bytes`. Returns true if the digest matches and nothing follows
/// the fields.
template <class... Ts>
bool read(mark what, std::string_view bytes, Ts&... xs) {
  const auto content = opened(what, bytes);
  if (!content) return false;
  core::byte_reader in(*content);
  in(xs...);
  return in.is_whole();
}

template <class... Ts>
std::string written(mark what, const Ts&... xs) {
  core::byte_writer out;
  out(xs...);
  return sealed(what, out.take());
}

}  // namespace

std::string encode(const part_result& part) {
  auto failure = part.failure;
  if (failure) failure->text.resize(std::min<size_t>(failure->text.size(), max_encoded_text_bytes));
  return written(mark::part, part.rank, part.file_bytes, part.waited_s, part.digests, failure);
}

core::result<part_result> decode_part_result(std::string_view bytes) {
  part_result out;
  const bool good = read(mark::part, bytes, out) && std::isfinite(out.waited_s) && out.waited_s >= 0;
  const auto& f = out.failure;
  if (!good ||
      (f && (f->kind < error_kind::bad_input || f->kind > error_kind::bug || f->text.size() > max_encoded_text_bytes)))
    return refused("a part of a save", bytes);
  return out;
}

std::string encode(const save_invitation& invitation) {
  return written(mark::invitation, invitation.working.string(), invitation.save_id);
}

core::result<save_invitation> decode_save_invitation(std::string_view bytes) {
  std::string working;
  save_invitation out;
  if (!read(mark::invitation, bytes, working, out.save_id) || working.size() > max_encoded_text_bytes)
    return refused("an invitation to a save", bytes);
  out.working = working;
  return out;
}

std::string encode(const save_request& x) {
  return written(mark::request, x.root.string(), x.configuration, x.client_state, x.keep_last, x.keep_every,
                 x.exclude_frozen_parameters, x.tag, x.save_latest);
}

core::result<save_request> decode_save_request(std::string_view bytes) {
  std::string root;
  save_request out;
  bool good = read(mark::request, bytes, root, out.configuration, out.client_state, out.keep_last, out.keep_every,
                   out.exclude_frozen_parameters, out.tag, out.save_latest);
  for (const std::string* text : {&root, &out.configuration, &out.client_state, &out.tag})
    good = good && text->size() <= max_encoded_text_bytes;
  if (!good) return refused("what is to be saved", bytes);
  out.root = root;
  return out;
}

}  // namespace troupe::actors
