#include "actors/session.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "actors/blueprint.hpp"
#include "actors/company.hpp"
#include "actors/compute_executor.hpp"
#include "actors/fabric_executor.hpp"
#include "actors/initial_weights.hpp"
#include "actors/ledger.hpp"
#include "actors/shard_executor.hpp"
#include "core/clock.hpp"
#include "core/math.hpp"
#include "fabric/in_process.hpp"
#include "kernels/cast.hpp"
#include "kernels/random.hpp"
#include "models/hugging_face.hpp"

namespace troupe::actors {
namespace {

struct system_config : caf::actor_system_config {
  system_config() {
    add_message_types<caf::id_block::troupe>();
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", size_t{2});       // rank, supervisor, loader, telemetry: policy, never arithmetic
    set("scheduler.max-throughput", size_t{100});  // nobody keeps a worker to himself
  }
};

}  // namespace

struct session::parts {
  blueprint plan;
  session_hooks hooks;
  std::vector<std::shared_ptr<rank_memory>> memory;
  std::vector<std::shared_ptr<const program>> programs[num_plan_choices];
  loader_setup data;
  allocation_ledger ledger;
  system_config settings;
  caf::actor_system system{settings};
  std::shared_ptr<company> actors;
  kernels::loss_scale_state scale;
  uint64_t runs = 0, steps = 0, applied = 0, collectives = 0;
  double last_factor = 1;  // makes the last step's reduced gradients means
  std::optional<core::error> over;

  core::result<void> read_data();
  core::result<void> take_memory();
  core::result<void> start_actors();
  core::result<run_outcome> run(plan_choice which, uint64_t step, std::shared_ptr<const data::batch> given);
};

core::result<void> session::parts::read_data() {
  const auto& c = *plan.config;
  data::source_options source;
  source.path = c.data.text;
  source.max_bytes = c.data.max_bytes;
  source.bin = c.data.bin_dtype == core::dtype::i32 ? data::bin_width::u32 : data::bin_width::u16;
  source.vocab_size = plan.spec.vocabulary;
  auto stream = data::open_tokens(source);
  if (!stream) return core::fail(stream.error());
  data.stream = std::move(*stream);
  auto split = data::split_tokens(data.stream->size(), c.data.validation_fraction, plan.sequence);
  if (!split) return core::fail(split.error().in(c.data.text.string()));
  data.validation = split->validation;
  data.sequence = plan.sequence;
  data.order = std::make_shared<const data::sample_order>(split->train, plan.sequence, c.seed);
  data.shape = {c.train_micro_batch_size_per_gpu, c.parallel.data, static_cast<uint32_t>(c.gradient_accumulation_steps)};
  data.prefetch_batches = std::max<uint64_t>(c.data.prefetch_batches, c.parallel.data);
  return {};
}

core::result<void> session::parts::take_memory() {
  for (uint32_t r = 0; r < plan.config->parallel.data; ++r) {
    std::vector<std::shared_ptr<const plan::step_plan>> all;
    for (size_t which = 0; which < num_plan_choices; ++which) {
      all.push_back(plan.plans[which][r]);
      programs[which].push_back(std::make_shared<const program>(plan.plans[which][r]));
    }
    auto m = rank_memory::allocate(all);
    if (!m) return core::fail(m.error());
    if (auto ok = fill_initial_weights(plan, **m); !ok) return ok;
    memory.push_back(std::move(*m));
  }
  return {};
}

core::result<void> session::parts::start_actors() {
  const auto& c = *plan.config;
  const uint32_t ranks = c.parallel.data;
  auto group = fabric::in_process_group::make(ranks);
  std::vector<rank_parts> all(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    auto& x = all[r];
    std::weak_ptr<rank_links> links = x.links;
    std::shared_ptr<fabric::communicator> communicator = group->join(r, [links](uint64_t sequence) {
      if (const auto l = links.lock()) post(l->lanes[static_cast<size_t>(plan::lane::fabric)], wake{sequence});
    });
    x.setup.rank = r;
    for (auto& p : programs) x.setup.programs.push_back(p[r]);
    x.setup.rules = plan.rules;
    x.setup.stall_after = std::chrono::nanoseconds(static_cast<int64_t>(plan.stall_after_s * 1e9));
    x.setup.missing = [weak = std::weak_ptr(communicator)](uint64_t sequence) {
      const auto known = weak.lock();
      return known ? known->missing(sequence) : std::vector<uint32_t>{};
    };
    auto stage = make_compute_executor({plan.spec, c.train_micro_batch_size_per_gpu, plan.sequence, c.seed}, memory[r]);
    if (!stage) return core::fail(stage.error());
    auto held = std::make_shared<std::unique_ptr<executor>>(std::move(*stage));
    x.lanes[static_cast<size_t>(plan::lane::compute)] = [held] { return std::move(*held); };
    x.lanes[static_cast<size_t>(plan::lane::fabric)] = [communicator, mine = memory[r], everybody = memory] {
      return std::make_unique<fabric_executor>(communicator, mine, everybody);
    };
    x.lanes[static_cast<size_t>(plan::lane::shard)] = [mine = memory[r], options = plan.optimizer] {
      return std::make_unique<shard_executor>(mine, options);
    };
  }
  telemetry_setup telemetry;
  if (c.telemetry.trace && !c.output.empty()) telemetry.trace_file = c.output / "trace.json";
  telemetry.from_step = c.telemetry.trace_from_step;
  telemetry.steps = c.telemetry.trace_steps;
  telemetry.complain = [warn = hooks.warn](const core::error& e) {
    if (warn) warn(e.text);
  };
  actors = assemble(system, std::move(all), data, std::move(telemetry), true);
  return {};
}

core::result<std::unique_ptr<session>> session::open(std::shared_ptr<const config::job_config> config, session_hooks hooks) {
  // Before any thread starts: otherwise every lane gets a team of its own, and teams change reductions inside ATen.
  at::set_num_threads(1);
  auto plan = make_blueprint(std::move(config));
  if (!plan) return core::fail(plan.error());
  auto p = std::make_unique<parts>();
  p->plan = std::move(*plan);
  p->hooks = std::move(hooks);
  p->scale = kernels::first_loss_scale(p->plan.loss_scale);
  if (auto ok = p->read_data(); !ok) return core::fail(ok.error());
  if (auto ok = p->take_memory(); !ok) return core::fail(ok.error());
  if (auto ok = p->start_actors(); !ok) return core::fail(ok.error());
  return std::unique_ptr<session>(new session(std::move(p)));
}

session::session(std::unique_ptr<parts> p) : parts_(std::move(p)) {}

session::~session() {
  if (parts_->actors) dismiss(*parts_->actors);
}

core::result<run_outcome> session::parts::run(plan_choice which, uint64_t step, std::shared_ptr<const data::batch> given) {
  if (over) return core::fail(*over);
  auto order = std::make_shared<step_order>();
  order->run = ++runs;
  order->step = step;
  order->applied = applied;
  order->lr = kernels::learning_rate(plan.schedule, static_cast<int64_t>(applied) - 1);
  order->loss_scale = scale.cur_scale;
  order->sequence_base = collectives;
  order->given = std::move(given);
  collectives += plan.plans[static_cast<size_t>(which)].front()->num_collectives;
  core::result<run_outcome> out = core::fail(core::error_kind::bug, "the supervisor did not answer");
  caf::scoped_actor self{system};
  // No time limit here: silence is the ranks' business, and they report it.
  self->request(actors->supervisor, caf::infinite, run_plan{which, order})
      .receive(
          [&](run_outcome& o) {
            if (o.failure)
              out = core::fail(*o.failure);
            else
              out = std::move(o);
          },
          [&](caf::error& e) { out = core::fail(core::error_kind::peer_lost, "supervisor ended: " + system.render(e)); });
  if (!out) over = out.error();
  return out;
}

core::result<step_report> session::step() {
  auto& p = *parts_;
  step_report report;
  report.lr = kernels::learning_rate(p.plan.schedule, static_cast<int64_t>(p.applied) - 1);
  report.loss_scale = p.scale.cur_scale;
  const int64_t before = core::now_ns();
  auto did = p.run(plan_choice::train, p.steps, nullptr);
  if (!did) return core::fail(did.error());
  report.seconds = double(core::now_ns() - before) / 1e9;
  report.step = ++p.steps;
  report.loss = did->result.loss;
  report.grad_norm = did->result.grad_norm;
  report.skipped = did->result.skipped;
  report.tokens = p.data.shape.global_rows() * p.plan.sequence;
  report.lanes = summarise(*did->contexts);
  if (!report.skipped) ++p.applied;
  p.last_factor = 1.0 / (double(p.data.shape.ranks) * p.data.shape.micros * p.scale.cur_scale * p.plan.rules.input_scale);
  auto scale = kernels::next_loss_scale(p.plan.loss_scale, p.scale, report.skipped);
  if (!scale) {
    p.over = scale.error();
    return core::fail(scale.error());
  }
  p.scale = *scale;
  return report;
}

core::result<double> session::evaluate(uint64_t batches) {
  auto& p = *parts_;
  const uint64_t windows = p.data.validation.samples(p.plan.sequence);
  if (windows == 0)
    return core::fail(core::error_kind::bad_input, "evaluation: there is no validation part; set data.validation_fraction");
  const uint64_t whole = std::max<uint64_t>(1, windows / (p.data.shape.rows * p.data.shape.ranks));
  const uint64_t n = batches > 0 ? std::min(batches, whole) : whole;
  double sum = 0;
  for (uint64_t i = 0; i < n; ++i) {
    auto did = p.run(plan_choice::evaluate, i, nullptr);
    if (!did) return core::fail(did.error());
    sum += did->result.loss;
  }
  return sum / double(n);
}

namespace {

// Draws from softmax(logits / temperature) with a uniform number in [0, 1).
int64_t draw(const std::vector<float>& logits, double temperature, double uniform) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return best - logits.begin();
  std::vector<double> weight(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) total += weight[i] = std::exp((double(logits[i]) - double(*best)) / temperature);
  double left = uniform * total;
  for (size_t i = 0; i < weight.size(); ++i)
    if ((left -= weight[i]) < 0) return static_cast<int64_t>(i);
  return static_cast<int64_t>(weight.size()) - 1;
}

}  // namespace

core::result<std::vector<int64_t>> session::generate(std::vector<int64_t> text, uint64_t tokens, double temperature) {
  auto& p = *parts_;
  if (text.empty()) return core::fail(core::error_kind::bad_input, "sample.prompt: wanted at least one token, got none");
  for (int64_t t : text)
    if (t < 0 || t >= int64_t{p.plan.spec.vocabulary})
      return core::fail(core::error_kind::bad_input, "sample.prompt: token " + std::to_string(t) + " is not in the vocabulary of " +
                                                         std::to_string(p.plan.spec.vocabulary));
  for (uint64_t i = 0; i < tokens; ++i) {
    auto b = std::make_shared<data::batch>();
    const uint64_t seen = std::min<uint64_t>(text.size(), p.plan.sequence);
    b->rows = 1;
    b->columns = seen + 1;
    b->tokens.assign(text.end() - static_cast<long>(seen), text.end());
    b->tokens.push_back(0);  // the target's place; generation computes no loss
    b->samples = {0};
    auto did = p.run(plan_choice::generate, p.steps, b);
    if (!did) return core::fail(did.error());
    const auto bits = kernels::philox({static_cast<uint32_t>(i), 0, 0, 0},
                                      {static_cast<uint32_t>(p.plan.config->seed), 0x73616D70U /* the sampler's stream */});
    text.push_back(draw(did->logits, temperature, double(bits[0]) / 4294967296.0));
  }
  return text;
}

void session::stop(const std::string& why) { post(parts_->actors->supervisor, give_up{core::error_kind::stopped, why}); }

uint64_t session::steps_done() const { return parts_->steps; }
uint64_t session::validation_tokens() const { return parts_->data.validation.size(); }
uint64_t session::sequence() const { return parts_->plan.sequence; }
const core::model_table& session::table() const { return *parts_->plan.table; }
const plan::step_plan& session::training_plan(uint32_t rank) const { return *parts_->plan.train()[rank]; }

std::vector<rank_memory_report> session::memory() const {
  std::vector<rank_memory_report> out;
  for (uint32_t r = 0; r < parts_->memory.size(); ++r)
    out.push_back({parts_->memory[r]->resident(), parts_->ledger.peak_bytes(ledger_owner(r))});
  return out;
}

namespace {

// Visits the owner's piece of every part of a parameter; at stage 0 rank 0 owns it whole.
template <class F>
void for_each_owned(const std::vector<std::shared_ptr<rank_memory>>& memory, uint32_t parameter, F visit) {
  for (const auto& m : memory) {
    for (const auto& group : m->plan().sub_groups)
      for (const auto& piece : group.pieces)
        if (piece.parameter == parameter) visit(*m, piece);
    if (m->plan().options.updates_all()) return;
  }
}

void to_fp32(const std::byte* from, core::dtype type, std::span<float> out) {
  kernels::cast(from, type, reinterpret_cast<std::byte*>(out.data()), core::dtype::f32, out.size());
}

}  // namespace

void session::read_parameter(uint32_t parameter, uint64_t first, std::span<float> out) const {
  for_each_owned(parts_->memory, parameter, [&](const rank_memory& m, const plan::owned_piece& x) {
    const uint64_t begin = std::max(first, x.range.first);
    const uint64_t end = std::min(first + out.size(), x.range.first + x.range.count);
    if (begin >= end) return;
    const auto type = m.plan().options.master();
    to_fp32(m.master(x) + (begin - x.range.first) * core::size_of(type), type, out.subspan(begin - first, end - begin));
  });
}

void session::read_moment(uint32_t parameter, int which, std::span<float> out) const {
  for_each_owned(parts_->memory, parameter, [&](const rank_memory& m, const plan::owned_piece& x) {
    to_fp32(which == 0 ? m.first_moment(x) : m.second_moment(x), m.plan().options.master(),
            out.subspan(x.range.first, x.range.count));
  });
}

void session::read_gradient(uint32_t parameter, std::span<double> out) const {
  for_each_owned(parts_->memory, parameter, [&](const rank_memory& m, const plan::owned_piece& x) {
    kernels::cast(m.reduced_gradient(parameter, x.range.first), m.plan().options.accumulation_type,
                  reinterpret_cast<std::byte*>(out.data() + x.range.first), core::dtype::f64, x.range.count);
  });
  for (double& g : out) g *= parts_->last_factor;
}

core::result<void> session::export_hugging_face(const std::string& folder, uint64_t max_shard_bytes) const {
  const auto read = [&](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
    read_parameter(q, first, out);
    return {};
  };
  return models::write_folder(folder, parts_->plan.spec, *parts_->plan.table, core::dtype::f32, read, max_shard_bytes);
}

}  // namespace troupe::actors
