#include "actors/step_context.hpp"

#include <algorithm>
#include <limits>

#include "plan/vote_layout.hpp"

namespace troupe::actors {

namespace {

std::span<double> zeroed(std::span<double> x) {
  std::fill(x.begin(), x.end(), 0.0);
  return x;
}

}  // namespace

vote_memory plain_votes(const plan::rank_plan& p) {
  const auto made =
      std::make_shared<std::vector<double>>(plan::vote_elements(*p.layout) + plan::measured_elements(*p.layout));
  const std::span all(*made);
  return {all.first(plan::vote_elements(*p.layout)), all.subspan(plan::vote_elements(*p.layout)), made};
}

step_context::step_context(std::shared_ptr<const actors::program> what, const step_order& o,
                           const job::scaling_rules& r, const vote_memory& memory)
    : program(std::move(what)),
      order(o),
      rules(r),
      work(plan().options().tiers.apart ? plan().instructions.size() : 0),
      batches(program->plan->options().accumulation),
      spans(program->plan->instructions.size()),
      gradients_written(plan().options().mode == plan::mode::train
                            ? plan().table().parameters.size() * plan().options().accumulation
                            : 0) {
  const vote_memory m = memory.owner != nullptr ? memory : plain_votes(plan());
  votes = zeroed(m.votes.first(plan::vote_elements(*plan().layout)));
  const auto& l = *plan().layout;
  for (uint64_t at = plan::loss_offset(l, l.options.data(), 0); at < plan::vote_elements(l); at += 2) {
    votes[at] = std::numeric_limits<double>::infinity();
    votes[at + 1] = -votes[at];
  }
  norms = zeroed(m.norms.first(plan::measured_elements(*plan().layout)));
  memory_ = m.owner;
}

const verdict& step_context::decide() {
  std::call_once(once_, [&] { verdict_ = judge(plan(), votes, order.loss_scale, rules, micros()); });
  return verdict_;
}

bool step_context::acts(plan::guard g) { return g == plan::guard::always || plan::acts(g, decide().taken()); }

double step_context::unclipped_scale() const { return actors::unclipped_scale(plan(), order.loss_scale, rules); }

}  // namespace troupe::actors
