// The bytes: a letter for what they are, the fields in order, little-endian, texts and lists behind their lengths, then
// the digest of all before it. A length is compared with what is left before anything is allocated for it.
#include "actors/hands/part_result.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace troupe::actors {
namespace {

using checkpoint::digest128;
using core::error_kind;
using core::fail;

constexpr char part_mark = 'p', invitation_mark = 'i', request_mark = 'r';
constexpr size_t digest_bytes = sizeof(uint64_t) * 2;

class byte_writer {
 public:
  explicit byte_writer(char mark) : out_(1, mark) {}

  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));  // little-endian, as every machine that
                                                                        // this builds for
  }
  void digest(const digest128& d) {
    number(d.high);
    number(d.low);
  }
  void text(std::string_view s) {
    number(static_cast<uint64_t>(s.size()));
    out_ += s;
  }
  std::string done() && {
    digest(checkpoint::digest_of(out_));
    return std::move(out_);
  }

 private:
  std::string out_;
};

/// After the first thing that is missing everything is zero, and done() says so.
class byte_reader {
 public:
  byte_reader(std::string_view bytes, char mark, const char* what) : what_(what), all_bytes_(bytes.size()) {
    if (bytes.size() <= digest_bytes || bytes.front() != mark) {
      good_ = false;
      return;
    }
    const auto content = bytes.substr(0, bytes.size() - digest_bytes);
    left_ = bytes.substr(content.size());
    good_ = digest() == checkpoint::digest_of(content);
    left_ = content.substr(1);
  }

  template <class T>
  T number() {
    T value{};
    if (!has(sizeof(T), 1)) return value;
    std::memcpy(&value, left_.data(), sizeof(T));
    left_.remove_prefix(sizeof(T));
    return value;
  }
  digest128 digest() {
    const auto high = number<uint64_t>(), low = number<uint64_t>();
    return {high, low};
  }
  bool flag() {
    const auto value = number<uint8_t>();
    expect(value <= 1);
    return value == 1;
  }
  std::string text() {
    const auto size = number<uint64_t>();
    if (!expect(size <= max_encoded_text_bytes) || !has(size, 1)) return {};
    std::string out(left_.substr(0, size));
    left_.remove_prefix(size);
    return out;
  }
  /// How many entries follow, of at least `entry_bytes` each.
  size_t entries(size_t entry_bytes) {
    const auto count = number<uint64_t>();
    return has(count, entry_bytes) ? count : 0;
  }
  bool expect(bool fact) { return good_ = good_ && fact; }

  template <class T>
  core::result<T> done(T value) {
    if (expect(left_.empty())) return value;
    return fail(error_kind::bad_input, std::string("wanted ") + what_ + " as another process encodes it, got " +
                                           std::to_string(all_bytes_) + " bytes that are cut short or changed");
  }

 private:
  bool has(uint64_t count, size_t each_bytes) { return expect(count <= left_.size() / each_bytes); }

  const char* what_;
  size_t all_bytes_;
  std::string_view left_;
  bool good_ = true;
};

}  // namespace

std::string encode(const part_result& part) {
  byte_writer to(part_mark);
  to.number(part.rank);
  to.number(part.file_bytes);
  to.number(part.waited_s);
  to.number(static_cast<uint64_t>(part.digests.size()));
  for (const auto& block : part.digests) {
    to.number(static_cast<uint64_t>(block.size()));
    for (const auto& d : block) to.digest(d);
  }
  to.number(static_cast<uint8_t>(part.failure ? part.failure->kind : error_kind{}));
  to.text(part.failure ? part.failure->text.substr(0, max_encoded_text_bytes) : std::string());
  return std::move(to).done();
}

core::result<part_result> decode_part_result(std::string_view bytes) {
  byte_reader from(bytes, part_mark, "a part of a save");
  part_result out;
  out.rank = from.number<uint32_t>();
  out.file_bytes = from.number<uint64_t>();
  out.waited_s = from.number<double>();
  from.expect(std::isfinite(out.waited_s) && out.waited_s >= 0);
  out.digests.resize(from.entries(sizeof(uint64_t)));
  for (auto& block : out.digests) {
    block.resize(from.entries(digest_bytes));
    for (auto& d : block) d = from.digest();
  }
  const auto kind = from.number<uint8_t>();
  auto text = from.text();
  from.expect(kind <= static_cast<uint8_t>(error_kind::bug));
  if (kind != 0) out.failure = core::error{static_cast<error_kind>(kind), std::move(text)};
  return from.done(std::move(out));
}

std::string encode(const save_invitation& invitation) {
  byte_writer to(invitation_mark);
  to.text(invitation.working.string());
  to.digest(invitation.save_id);
  return std::move(to).done();
}

core::result<save_invitation> decode_save_invitation(std::string_view bytes) {
  byte_reader from(bytes, invitation_mark, "an invitation to a save");
  save_invitation out;
  out.working = from.text();
  out.save_id = from.digest();
  return from.done(std::move(out));
}

std::string encode(const save_request& request) {
  byte_writer to(request_mark);
  to.text(request.root.string());
  to.text(request.configuration);
  to.text(request.client_state);
  to.number(request.keep_last);
  to.number(request.keep_every);
  to.number(static_cast<uint8_t>(request.exclude_frozen_parameters));
  to.text(request.tag);
  to.number(static_cast<uint8_t>(request.save_latest));
  return std::move(to).done();
}

core::result<save_request> decode_save_request(std::string_view bytes) {
  byte_reader from(bytes, request_mark, "what is to be saved");
  save_request out;
  out.root = from.text();
  out.configuration = from.text();
  out.client_state = from.text();
  out.keep_last = from.number<uint32_t>();
  out.keep_every = from.number<uint64_t>();
  out.exclude_frozen_parameters = from.flag();
  out.tag = from.text();
  out.save_latest = from.flag();
  return from.done(std::move(out));
}

}  // namespace troupe::actors
