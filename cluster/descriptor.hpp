// Owns a file descriptor and closes it; leaves its meaning to the holder.
#pragma once

#include <unistd.h>

#include <memory>

namespace troupe::cluster {

class descriptor {  ///< descriptor of an open file, memory, event or socket
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

/// A descriptor that several holders may share; null in simulations, where messages carry no descriptors.
using shared_descriptor = std::shared_ptr<const descriptor>;

/// Takes ownership of descriptor `number`.
inline shared_descriptor own(int number) { return std::make_shared<const descriptor>(number); }

}  // namespace troupe::cluster
