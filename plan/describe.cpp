#include "plan/step_plan.hpp"

namespace troupe::plan {

std::string_view name_of(kind k) {
  switch (k) {
    case kind::load:
      return "load";
    case kind::gather:
      return "gather";
    case kind::release:
      return "release";
    case kind::forward:
      return "forward";
    case kind::recompute:
      return "recompute";
    case kind::backward:
      return "backward";
    case kind::reduce:
      return "reduce";
    case kind::norm:
      return "norm";
    case kind::vote:
      return "vote";
    case kind::update:
      return "update";
    case kind::publish:
      return "publish";
  }
  return "?";
}

std::string_view name_of(lane l) {
  switch (l) {
    case lane::control:
      return "control";
    case lane::compute:
      return "compute";
    case lane::fabric:
      return "fabric";
    case lane::shard:
      return "shard";
  }
  return "?";
}

lane lane_of(kind k) {
  switch (k) {
    case kind::load:
      return lane::control;
    case kind::release:
    case kind::forward:
    case kind::recompute:
    case kind::backward:
      return lane::compute;
    case kind::gather:
    case kind::reduce:
    case kind::vote:
    case kind::publish:
      return lane::fabric;
    case kind::norm:
    case kind::update:
      return lane::shard;
  }
  return lane::control;
}

std::vector<owner_bytes> owners_of(const memory_table& m) {
  return {{"parameters", m.parameters},
          {"gathered parameters", m.gathered},
          {"master weights", m.master},
          {"moments", m.moments},
          {"gradient buckets", m.gradients},
          {"accumulated gradients", m.accumulated},
          {"activations (predicted)", m.activations},
          {"votes", m.votes}};
}

std::string step_plan::describe(uint32_t id) const {
  const instruction& x = instructions[id];
  std::string out(name_of(x.kind));
  switch (x.kind) {
    case kind::gather:
    case kind::release:
      out.append(" ").append(gather_sets[x.subject].name);
      break;
    case kind::forward:
    case kind::recompute:
    case kind::backward:
      out.append(" ").append(table->units[x.subject].name);
      if (x.segment != none && table->units[x.subject].segments.size() > 1)
        out.append(" ").append(table->units[x.subject].segments[x.segment].name);
      break;
    case kind::reduce:
    case kind::norm:
      out.append(" ").append(buckets[x.subject].name);
      break;
    case kind::update:
      out.append(" sub-group ").append(std::to_string(x.subject));
      break;
    case kind::publish:
      out.append(" ").append(std::to_string(x.subject));
      break;
    case kind::load:
    case kind::vote:
      break;
  }
  if (options.accumulation > 1) out.append(", micro ").append(std::to_string(x.micro));
  if (x.kind == kind::gather || x.kind == kind::release) out += x.use == use::forward ? ", forward" : ", backward";
  return out;
}

}  // namespace troupe::plan
