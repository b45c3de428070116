#include "device/memory.hpp"

#include <utility>

#include "core/text.hpp"
#include "device/backend.hpp"

namespace troupe::device {

core::result<memory> memory::allocate(device_id device, device::tier tier, uint64_t bytes) {
  memory out;
  out.device_ = device;
  out.tier_ = tier;
  if (bytes == 0) return out;
  const backend& b = backend_of(device);
  auto made = b.allocate(device.index, tier, bytes);
  if (!made) {
    auto why = made.error();
    const properties& facts = b.properties_of(device.index);
    if (facts.total_bytes > 0 && tier == device::tier::device)
      why.text += "; " + facts.name + " has " + core::human_bytes(facts.total_bytes);
    return core::fail(std::move(why));
  }
  out.owner_ = std::move(made->owner);
  out.data_ = made->data;
  out.bytes_ = made->bytes;
  out.remark_ = std::move(made->remark);
  return out;
}

memory memory::of(std::shared_ptr<void> owner, std::span<std::byte> bytes, device_id device, device::tier tier) {
  memory out;
  out.owner_ = std::move(owner);
  out.data_ = bytes.data();
  out.bytes_ = bytes.size();
  out.device_ = device;
  out.tier_ = tier;
  out.is_others_ = true;
  return out;
}

bool memory::discard() const { return !is_others_ && owner_ != nullptr && backend_of(device_).discard(owner_.get()); }

}  // namespace troupe::device
