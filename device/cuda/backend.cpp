#include "device/cuda/backend.hpp"

#include "device/cuda/driver.hpp"
#include "device/cuda/faults.hpp"
#include "device/cuda/memory.hpp"
#include "device/cuda/stream.hpp"

namespace troupe::device::cuda {
namespace {

constinit program lent{};

}  // namespace

void use(const program& p) { lent = p; }

const program& used_program() { return lent; }

const backend cuda_backend{.count = visible_devices,
                           .check = check_device,
                           .properties_of = facts_of,
                           .allocate = allocate,
                           .discard = discard,
                           .make_stream = make_stream,
                           .make_current = [](void*) -> void* { return nullptr; },
                           .copy = copy,
                           .record = record,
                           .wait = wait,
                           .finish = finish,
                           .is_over = is_over,
                           .finish_event = finish_event,
                           .elapsed_ns = elapsed_ns};

}  // namespace troupe::device::cuda
