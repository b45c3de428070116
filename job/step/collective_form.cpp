#include "job/step/collective_form.hpp"

#include "plan/group_exchange.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/pieces.hpp"

namespace troupe::job {

piece_lists pieces_of(const plan::rank_plan& p) {
  const plan::collective_pieces all(*p.layout);
  piece_lists out(p.num_collectives.size());
  for (const uint32_t id : p.lanes[static_cast<size_t>(plan::lane::fabric)]) {
    const auto& x = p.instructions[id];
    auto& mine = out[x.communicator].emplace_back();
    for (const auto& m : all.of(x)) mine.push_back({m.owner, m.from, m.to, m.count});
  }
  return out;
}

fabric::request collective_form(const plan::rank_plan& p, const plan::instruction& x) {
  const auto& o = p.options();
  const auto& row = plan::row_of(x.kind);
  fabric::request r;
  r.op = plan::is_pair(row.group) ? fabric::operation::send_receive : fabric::operation::all_gather;
  const auto all_in = [&](core::dtype type) { r.input_type = r.communication = r.output_type = type; };
  switch (row.elements) {
    case plan::moved_elements::none:
    case plan::moved_elements::parameters:
      all_in(o.types.parameter);
      break;
    case plan::moved_elements::bytes:
      all_in(core::dtype::u8);
      break;
    case plan::moved_elements::masters:
      all_in(o.master());
      break;
    case plan::moved_elements::sums:
      all_in(o.types.accumulation);
      break;
    case plan::moved_elements::doubles:
      all_in(core::dtype::f64);
      break;
    case plan::moved_elements::exchanged: {
      const core::exchange_op op = plan::exchange_of(*p.layout, x.subject, x.segment, x.use).op;
      if (op == core::exchange_op::sum) r.op = fabric::operation::all_reduce;
      if (op == core::exchange_op::swap) r.op = fabric::operation::all_to_all;
      if (op == core::exchange_op::scatter) r.op = fabric::operation::reduce_scatter;
      all_in(core::adds(op) ? o.types.parameter : core::dtype::u8);
      break;
    }
    case plan::moved_elements::reduced:
      r.op = o.reduce_to_all() ? fabric::operation::all_reduce : fabric::operation::reduce_scatter;
      r.input_type = o.bucket_type();
      r.communication = o.types.communication;
      r.output_type = o.types.accumulation;
      r.accumulate = !o.buckets_stay() && x.micro != p.layout->first_micro(x.subject);
      break;
  }
  return r;
}

}  // namespace troupe::job
