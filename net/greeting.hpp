// What two ends of a control link say first: whether each believes the other's certificate, then who they are. Owns
// the bytes of it and both ends' sentences where one refuses.
//
// connects -> accepts   greeting: version of the protocol, verdict on the other's certificate, a sentence if it is bad
// accepts -> connects   greeting
// connects -> accepts   its introduction           only where both verdicts are good
// accepts -> connects   its introduction, or a sentence that refuses
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "net/door.hpp"
#include "net/identity.hpp"

namespace troupe::net {

inline constexpr uint16_t link_protocol = 1;
inline constexpr size_t introduction_bytes_max = 4096;

/// The acceptor's answer to another's introduction: its own, or why the other may not come in.
using admission = std::function<core::result<std::string>(const std::string& name, const std::string& introduction)>;

class greeting final : public first_words {
 public:
  /// Of the end that connects, to one that has to be `wanted`.
  greeting(const identity& me, std::string wanted, std::string introduction);
  /// Of the end that accepts.
  greeting(const identity& me, admission admit);

  core::result<bool> advance(tls_stream& with) override;

  /// Once all is said.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& introduction() const { return introduction_; }

 private:
  enum class part : uint8_t { say_greeting, hear_greeting, say_introduction, hear_introduction, hear_answer, done };

  core::result<void> say(tls_stream& with, const std::string& bytes) const;
  /// True once so many bytes are there.
  core::result<bool> hear(tls_stream& with, size_t bytes);
  /// A verdict and a text, behind `before` bytes; true once they are there.
  core::result<bool> hear_block(tls_stream& with, size_t before, size_t text_bytes_max);
  core::result<void> weigh_greeting();
  core::result<void> answer(tls_stream& with);

  const identity& me_;
  tls_side side_;
  std::string wanted_, own_introduction_;
  admission admit_;
  part next_ = part::say_greeting;
  std::string objection_, heard_;
  bool is_good_ = false;  ///< the verdict heard last, and its text
  std::string text_;
  std::string name_, introduction_;
};

}  // namespace troupe::net
