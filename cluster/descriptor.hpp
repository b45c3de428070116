// A descriptor with an owner. Owns its closing; what it is of is the holder's.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

namespace troupe::cluster {

class descriptor {  ///< of an open file, memory, event or socket
 public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

/// Several parties may hold one; null in simulations, where messages travel without.
using shared_descriptor = std::shared_ptr<const descriptor>;

/// A descriptor that is the caller's from now on.
inline shared_descriptor own(int number) { return std::make_shared<const descriptor>(number); }

}  // namespace troupe::cluster
