#include "sim/answer.hpp"

#include <ostream>

#include "core/text.hpp"

namespace troupe::sim {

verdict operator&&(const verdict& a, const verdict& b) { return a ? b : a; }

std::ostream& operator<<(std::ostream& out, const verdict& v) { return out << v.text(); }

std::string quantity::text() const { return core::text_of("%.6g", value_) + " " + text_; }

verdict quantity::above(double limit) const {
  return {value_ > limit, "wanted above " + core::text_of("%.6g", limit) + ", got " + text()};
}

verdict quantity::below(double limit) const {
  return {value_ < limit, "wanted below " + core::text_of("%.6g", limit) + ", got " + text()};
}

std::ostream& operator<<(std::ostream& out, const quantity& q) { return out << q.text(); }

}  // namespace troupe::sim
