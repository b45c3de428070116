#include "job/collective_form.hpp"

#include "plan/group_exchange.hpp"
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
  fabric::request r;
  r.op = fabric::operation::all_gather;
  r.input_type = r.communication = r.output_type = o.types.parameter;
  const auto all_in = [&](core::dtype type) { r.input_type = r.communication = r.output_type = type; };
  if (x.kind == plan::kind::agree) all_in(core::dtype::u8);
  if (plan::is_transfer(x.kind)) {
    r.op = fabric::operation::send_receive;
    all_in(core::dtype::u8);
  }
  if (x.kind == plan::kind::vote || x.kind == plan::kind::measure) all_in(core::dtype::f64);
  if (x.kind == plan::kind::collect || x.kind == plan::kind::spread) all_in(o.master());
  if (x.kind == plan::kind::tie) {
    r.op = fabric::operation::send_receive;
    all_in(o.types.accumulation);
  }
  if (x.kind == plan::kind::exchange) {
    const core::exchange_op op = plan::exchange_of(*p.layout, x.subject, x.segment, x.use).op;
    if (op == core::exchange_op::sum) r.op = fabric::operation::all_reduce;
    if (op == core::exchange_op::swap) r.op = fabric::operation::all_to_all;
    if (op == core::exchange_op::scatter) r.op = fabric::operation::reduce_scatter;
    if (!core::adds(op)) all_in(core::dtype::u8);
  }
  if (x.kind == plan::kind::reduce) {
    r.op = o.reduce_to_all() ? fabric::operation::all_reduce : fabric::operation::reduce_scatter;
    r.input_type = o.bucket_type();
    r.communication = o.types.communication;
    r.output_type = o.types.accumulation;
    r.accumulate = !o.buckets_stay() && x.micro != p.layout->first_micro(x.subject);
  }
  return r;
}

}  // namespace troupe::job
