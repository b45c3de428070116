// Exchanges the first messages of a control link: whether each end accepts the other end's certificate, then an
// introduction (a text about itself) of each end. Owns the encoding and the sentences with which an end refuses.
//
// 1. Each end sends a hello message: version of the protocol, verdict on the other end's certificate and, if the
// verdict is
//    bad, a sentence that says why.
// 2. If both verdicts are good, the end that connects sends its introduction.
// 3. The end that accepts sends its introduction, or a sentence that says why it refuses the introduction it received.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "net/connector.hpp"
#include "net/identity.hpp"

namespace troupe::net {

inline constexpr uint16_t link_protocol = 1;
inline constexpr size_t introduction_bytes_max = 4096;

/// Function of the accepting end: receives the other end's name and introduction, and returns its own introduction or
/// the reason why it refuses.
using admission = std::function<core::result<std::string>(const std::string& name, const std::string& introduction)>;

class link_hello final : public first_words {
 public:
  /// Prepares the exchange of first messages on the end that connects. The other end's certificate must be for
  /// `wanted`, a host name or address; `introduction` is the text about this end that the other end receives.
  link_hello(const identity& me, std::string wanted, std::string introduction);
  /// Prepares the exchange of first messages on the end that accepts a connection; `admit` decides whether the other
  /// end is accepted.
  link_hello(const identity& me, admission admit);

  core::result<bool> advance(tls_stream& with) override;

  /// Returns the name in the other end's certificate; `introduction` returns the other end's introduction. Both are
  /// valid once the exchange is complete.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& introduction() const { return introduction_; }

 private:
  enum class part : uint8_t { say_hello, hear_hello, say_introduction, hear_introduction, hear_answer, done };

  core::result<void> say(tls_stream& with, const std::string& bytes) const;
  /// Reads until `received_` contains `bytes` bytes of the other end's message. Returns false if fewer have arrived so
  /// far.
  core::result<bool> hear(tls_stream& with, size_t bytes);
  /// Reads a verdict and a text, which follow the first `before` bytes of `received_`. Returns false if they have not
  /// arrived yet.
  core::result<bool> hear_block(tls_stream& with, size_t before, size_t text_bytes_max);
  core::result<void> check_hello();
  core::result<void> answer(tls_stream& with);

  const identity& me_;
  tls_side side_;
  std::string wanted_, own_introduction_;
  admission admit_;
  part next_ = part::say_hello;
  std::string objection_, received_;
  bool is_good_ = false;  ///< last received verdict, with its text in `text_`; true: accepted
  std::string text_;
  std::string name_, introduction_;
};

}  // namespace troupe::net
