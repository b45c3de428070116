#include "fabric/sentences.hpp"

#include <fmt/format.h>

#include <type_traits>

#include "core/text.hpp"

namespace troupe::fabric {
namespace {

template <class T>
std::string spelled(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_floating_point_v<T>)
    return core::text_of("%.9g", static_cast<double>(value));
  else if constexpr (std::is_integral_v<T>)
    return fmt::to_string(value);
  else
    return std::string(value);
}

std::string spelled(const piece& p) {
  return fmt::format("owner {} from {} to {} count {}", p.owner, p.from, p.to, p.count);
}

std::string posted(const std::string& who, const request& r) { return who + " posted " + describe(r.id, r.op); }

}  // namespace

std::string describe(const identity& id, operation op) {
  return fmt::format("{} '{}' (communicator {}, step {}, sequence {})", name_of(op), id.what, id.communicator, id.step,
                     id.sequence);
}

std::optional<std::string> difference(const request& wanted, const request& got) {
  std::optional<std::string> out;
  const auto compare = [&](const char* field, const auto& a, const auto& b) {
    if (!out && a != b) out = std::string(field) + ": wanted " + spelled(a) + ", got " + spelled(b);
  };
  compare("communicator", wanted.id.communicator, got.id.communicator);
  compare("step", wanted.id.step, got.id.step);
  compare("instruction", wanted.id.what, got.id.what);
  compare("operation", name_of(wanted.op), name_of(got.op));
  compare("input dtype", name_of(wanted.input_type), name_of(got.input_type));
  compare("communication dtype", name_of(wanted.communication), name_of(got.communication));
  compare("output dtype", name_of(wanted.output_type), name_of(got.output_type));
  compare("input scale", wanted.input_scale, got.input_scale);
  compare("accumulate", wanted.accumulate, got.accumulate);
  compare("number of pieces", wanted.pieces.size(), got.pieces.size());
  if (out || wanted.pieces.data() == got.pieces.data()) return out;
  for (size_t i = 0; !out && i < wanted.pieces.size(); ++i)
    if (wanted.pieces[i] != got.pieces[i]) compare(fmt::format("piece {}", i).c_str(), wanted.pieces[i], got.pieces[i]);
  return out;
}

core::error out_of_turn(const std::string& who, const request& r, uint64_t due) {
  return {error_kind::mismatch,
          fmt::format("{} out of turn: wanted sequence {}, got {}", posted(who, r), due, r.id.sequence)};
}

core::error too_far_ahead(const std::string& who, const request& r, uint64_t most, uint64_t oldest) {
  return {error_kind::limit, fmt::format("{} too far ahead: at most {} from the oldest unfinished one, sequence {}",
                                         posted(who, r), most, oldest)};
}

core::error unsound(const std::string& who, const request& r, const core::error& why) { return why.in(posted(who, r)); }

core::error mismatch(const std::string& who, const request& got, const std::string& other, const request& wanted,
                     const std::string& differs) {
  return {error_kind::mismatch, posted(who, got) + " where " + posted(other, wanted) + "; " + differs};
}

core::error not_posted(const std::string& who, uint64_t sequence, uint64_t next) {
  return {error_kind::bug,
          fmt::format("{} advances sequence {}, which it has not posted; its next is {}", who, sequence, next)};
}

}  // namespace troupe::fabric
