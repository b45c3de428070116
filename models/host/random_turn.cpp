#include "models/host/random_turn.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include "kernels/base/random.hpp"

namespace troupe::models {
namespace {

std::mutex& turns() {
  static std::mutex the;
  return the;
}

uint64_t number_of(const random_key& k) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  const auto bits = kernels::philox({low(k.step), k.micro, k.rank, k.use}, {low(k.seed), high(k.seed) ^ high(k.step)});
  return uint64_t{bits[0]} << 32 | bits[1];
}

/// Calls `f` with Torch's default CPU generator while holding the generator's lock.
auto with_generator(auto f) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return f(generator);
}

at::Tensor state() {
  return with_generator([](at::Generator& g) { return g.get_state(); });
}

}  // namespace

random_turn::random_turn(const random_key& key) : turn_(turns()), before_(state()) {
  with_generator([&](at::Generator& g) { g.set_current_seed(number_of(key)); });
  seeded_ = state();
}

random_turn::~random_turn() {
  with_generator([&](at::Generator& g) { g.set_state(before_); });
}

bool random_turn::drew() const { return !state().equal(seeded_); }

}  // namespace troupe::models
