#include "net/link_hello.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/text.hpp"

namespace troupe::net {
namespace {

constexpr std::string_view mark = "TROUPE";
constexpr size_t version_bytes = mark.size() + 2, block_head_bytes = 3, sentence_bytes_max = 1024;

std::string number_bytes(size_t n) { return {static_cast<char>(n & 0xff), static_cast<char>(n >> 8 & 0xff)}; }
size_t number_at(const std::string& bytes, size_t at) {
  return static_cast<unsigned char>(bytes[at]) | size_t{static_cast<unsigned char>(bytes[at + 1])} << 8;
}

std::string block_of(bool good, std::string_view text) {
  return std::string(1, good ? '\1' : '\0') + number_bytes(text.size()) + std::string(text);
}

/// Returns `text` with control characters replaced by `?`, because any program may have sent the text.
std::string printable(std::string text) {
  for (char& c : text)
    if (core::is_ascii_control(c)) c = '?';
  return text;
}

core::error foreign_hello() {
  return {core::error_kind::mismatch, "it is not a process of a Troupe job: its first message is no hello of Troupe"};
}

}  // namespace

link_hello::link_hello(const identity& me, std::string wanted, std::string introduction)
    : me_(me), side_(tls_side::connects), wanted_(std::move(wanted)), own_introduction_(std::move(introduction)) {}

link_hello::link_hello(const identity& me, admission admit)
    : me_(me), side_(tls_side::accepts), admit_(std::move(admit)) {}

core::result<void> link_hello::say(tls_stream& with, const std::string& bytes) const {
  TROUPE_ASSIGN(const auto taken, with.write(std::as_bytes(std::span(bytes))));
  if (taken != bytes.size()) return core::fail(core::error_kind::limit, "it does not read the hello message");
  return {};
}

core::result<bool> link_hello::hear(tls_stream& with, size_t bytes) {
  while (received_.size() < bytes) {
    const size_t before = received_.size();
    received_.resize(bytes);
    const auto n = with.read(std::as_writable_bytes(std::span(received_).subspan(before)));
    received_.resize(before + (n ? *n : 0));
    if (!n) return core::fail(n.error());
    if (*n == 0) return false;
  }
  return true;
}

core::result<bool> link_hello::hear_block(tls_stream& with, size_t before, size_t text_bytes_max) {
  auto there = hear(with, before + block_head_bytes);
  if (!there || !*there) return there;
  const size_t bytes = number_at(received_, before + 1);
  if (static_cast<unsigned char>(received_[before]) > 1 || bytes > text_bytes_max) return core::fail(foreign_hello());
  there = hear(with, before + block_head_bytes + bytes);
  if (!there || !*there) return there;
  is_good_ = received_[before] == '\1';
  text_ = received_.substr(before + block_head_bytes);
  return true;
}

core::result<void> link_hello::check_hello() {
  std::string why = objection_;
  if (!is_good_) why += (why.empty() ? "it refuses: " : "; it refuses, too: ") + printable(text_);
  if (!why.empty()) return core::fail(core::error_kind::mismatch, why);
  const size_t version = number_at(received_, mark.size());
  if (version != link_protocol)
    return core::fail(
        core::error_kind::mismatch,
        fmt::format("wanted version {} of the link protocol, got {}; install the same version of Troupe on all hosts",
                    link_protocol, version));
  return {};
}

core::result<void> link_hello::answer(tls_stream& with) {
  introduction_ = text_;
  auto own = admit_ ? admit_(name_, introduction_) : core::result<std::string>(std::string());
  if (own && own->size() > introduction_bytes_max)
    own = core::fail(core::error_kind::limit, fmt::format("an introduction: wanted at most {} bytes, got {}",
                                                          introduction_bytes_max, own->size()));
  if (own) return say(with, block_of(true, *own));
  TROUPE_TRY(say(with, block_of(false, own.error().text.substr(0, sentence_bytes_max))));
  return core::fail(own.error());
}

core::result<bool> link_hello::advance(tls_stream& with) {
  for (;;) {
    core::result<void> good;
    core::result<bool> there = true;
    switch (next_) {
      case part::say_hello:
        name_ = peer_name(with);
        objection_ = me_.objection(with, wanted_);
        good = say(with, std::string(mark) + number_bytes(link_protocol) +
                             block_of(objection_.empty(), objection_.substr(0, sentence_bytes_max)));
        next_ = part::hear_hello;
        break;
      case part::hear_hello:
        there = hear(with, mark.size());
        if (there && *there && !received_.starts_with(mark)) return core::fail(foreign_hello());
        if (there && *there) there = hear_block(with, version_bytes, sentence_bytes_max);
        if (!there || !*there) break;
        good = check_hello();
        next_ = side_ == tls_side::connects ? part::say_introduction : part::hear_introduction;
        received_.clear();
        break;
      case part::say_introduction:
        good = say(with, block_of(true, own_introduction_));
        next_ = part::hear_answer;
        break;
      case part::hear_introduction:
        there = hear_block(with, 0, introduction_bytes_max);
        if (!there || !*there) break;
        good = answer(with);
        next_ = part::done;
        break;
      case part::hear_answer:
        there = hear_block(with, 0, introduction_bytes_max);
        if (!there || !*there) break;
        if (!is_good_) good = core::fail(core::error_kind::mismatch, "it refuses: " + printable(text_));
        introduction_ = text_;
        next_ = part::done;
        break;
      case part::done:
        return true;
    }
    if (!there && !objection_.empty())  // the other end closed without a message: report why this end refuses
      return core::fail(core::error_kind::mismatch, objection_);
    if (!there || !*there) return there;
    if (!good) return core::fail(good.error());
  }
}

}  // namespace troupe::net
