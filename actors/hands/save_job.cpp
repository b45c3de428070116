#include "actors/hands/save_job.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "checkpoint/commit/retention.hpp"
#include "checkpoint/native/shard.hpp"
#include "core/clock.hpp"
#include "plan/layout/saves.hpp"

namespace troupe::actors {
namespace {

static_assert(plan::save_grain_bytes == checkpoint::piece_alignment_bytes);
static_assert(plan::save_grain_bytes == checkpoint::shard_header_bytes);
static_assert(plan::save_grain_bytes == checkpoint::write_alignment_bytes);

bool taken(const plan::snapshot_block& b, const save_request& r) { return !b.frozen || !r.exclude_frozen_parameters; }

uint64_t file_bytes(const plan::rank_plan& p, const save_request& r) {
  uint64_t n = checkpoint::shard_header_bytes;
  for (const auto& b : p.snapshots)
    if (taken(b, r)) n += b.bytes;
  return n;
}

double seconds_since(int64_t begin_ns) { return double(core::now_ns() - begin_ns) / 1e9; }

checkpoint::tensor_kind kind_of(uint32_t part) {
  if (part == plan::saved_weights) return checkpoint::tensor_kind::master;
  return part == plan::saved_frozen ? checkpoint::tensor_kind::frozen : checkpoint::tensor_kind::moment;
}

}  // namespace

core::result<std::shared_ptr<save_job>> save_job::begin(checkpoint::file_system& files, save_request request,
                                                        checkpoint::run_state run, plan::rank_plans plans,
                                                        std::shared_ptr<const job::optimizer_groups> groups,
                                                        job::chosen_tensor tensor) {
  uint64_t needed_bytes = 0;
  for (const auto& p : plans) needed_bytes += file_bytes(*p, request);
  const auto latest = request.save_latest ? checkpoint::latest_update::always : checkpoint::latest_update::if_replaced;
  auto save = checkpoint::checkpoint_save::begin(files, request.root, run.step, needed_bytes,
                                                 checkpoint::random_save_id(), {request.tag, latest});
  if (!save) return core::fail(save.error());
  return std::make_shared<save_job>(std::move(*save), std::move(request), std::move(run), plans, std::move(groups),
                                    std::move(tensor), files);
}

save_job::save_job(checkpoint::checkpoint_save save, save_request request, checkpoint::run_state run,
                   plan::rank_plans plans, std::shared_ptr<const job::optimizer_groups> groups,
                   job::chosen_tensor tensor, checkpoint::file_system& files)
    : files_(files),
      save_(std::move(save)),
      request_(std::move(request)),
      run_(std::move(run)),
      plans_(plans.begin(), plans.end()),
      groups_(std::move(groups)),
      tensor_(std::move(tensor)),
      file_bytes_(plans.size(), 0),
      began_ns_(core::now_ns()),
      begun_(plans.size(), false),
      parts_left_(static_cast<uint32_t>(plans.size())) {
  for (const auto& p : plans_) digests_.emplace_back(p->snapshots.size());
  report_.step = run_.step;
}

bool save_job::is_over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

save_report save_job::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return over_; });
  return report_;
}

bool save_job::part_begun(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  const bool mine = !begun_[rank];
  begun_[rank] = true;
  return mine;
}

void save_job::abandon(const core::error& why) {
  for (uint32_t r = 0; r < plans_.size(); ++r) {
    if (!part_begun(r)) continue;
    fail({core::error_kind::stopped, "the run ended before the checkpoint was copied: " + why.text});
    part_ended(r, 0, 0);
  }
}

void save_job::fail(core::error why) {
  const std::lock_guard lock(mutex_);
  if (!report_.failure) report_.failure = std::move(why);
}

void save_job::part_ended(uint32_t rank, uint64_t bytes, double waited_s) {
  bool good = false;
  {
    const std::lock_guard lock(mutex_);
    file_bytes_[rank] = bytes;
    report_.bytes += bytes;
    report_.waited_seconds = std::max(report_.waited_seconds, waited_s);
    if (--parts_left_ > 0) return;
    good = !report_.failure;
  }
  auto folder = good ? commit() : core::result<std::filesystem::path>();
  save_.reset();  // removes what was not committed
  std::optional<core::error> failure;
  if (!folder) failure = folder.error();
  if (good && folder)
    if (auto kept = checkpoint::apply_retention(files_, request_.root, {request_.keep_last, request_.keep_every});
        !kept)
      failure = kept.error();
  // Not locked before: asking whether the save is over must not wait for the disk.
  const std::lock_guard lock(mutex_);
  if (folder) report_.folder = *folder;
  if (failure) report_.failure = std::move(failure);
  report_.seconds = seconds_since(began_ns_);
  over_ = true;
  ended_.notify_all();
}

core::result<std::filesystem::path> save_job::commit() { return save_->commit(content()); }

checkpoint::manifest save_job::content() const {
  checkpoint::manifest m;
  m.run = run_;
  std::map<std::tuple<uint32_t, uint32_t>, size_t> place;  // parameter, part
  for (uint32_t r = 0; r < plans_.size(); ++r) {
    const auto& p = *plans_[r];
    m.files.push_back({checkpoint::shard_file_name(r), file_bytes_[r]});
    for (uint32_t b = 0; b < p.snapshots.size(); ++b) {
      const auto& block = p.snapshots[b];
      if (!taken(block, request_)) continue;
      for (size_t i = 0; i < block.pieces.size(); ++i) {
        const auto& x = block.pieces[i];
        const auto [at, fresh] = place.try_emplace({x.parameter, x.part}, m.tensors.size());
        if (fresh) {
          const auto& table = tensor_.whole != nullptr ? *tensor_.whole : p.table();
          const auto& parameter = table.parameters[x.parameter];
          checkpoint::tensor_entry t{
              parameter.name,     kind_of(x.part), {}, plan::saved_type(*p.layout, x.parameter), parameter.shape, {},
              cut_of(x.parameter)};
          if (t.kind == checkpoint::tensor_kind::moment)
            t.moment = job::moment_name(*groups_, x.parameter, x.part - plan::saved_moment);
          m.tensors.push_back(std::move(t));
        }
        add_piece(m.tensors[at->second], r, b, i);
      }
    }
  }
  return m;
}

void save_job::add_piece(checkpoint::tensor_entry& to, uint32_t rank, uint32_t block, size_t piece) const {
  const auto& p = *plans_[rank];
  const auto& x = p.snapshots[block].pieces[piece];
  const uint64_t offset = p.snapshots[block].file_offset + x.offset;
  const auto& digest = digests_[rank][block][piece];
  if (!to.cut.cuts()) {
    to.pieces.push_back({rank, x.range.first, x.range.count, offset, digest});
    return;
  }
  const auto own = own_of(rank, x);
  if (own.count > 0) to.pieces.push_back({rank, own.first, own.count, offset, digest, p.layout->tensor_at(rank)});
}

core::parameter_cut save_job::cut_of(uint32_t parameter) const {
  return tensor_.cut.parameters.empty() ? core::parameter_cut() : tensor_.cut.parameters[parameter];
}

save_job::own_elements save_job::own_of(uint32_t rank, const plan::saved_piece& x) const {
  const auto cut = cut_of(x.parameter);
  if (!cut.cuts()) return {x.range.first, x.range.count, {{x.range.first, x.range.first, x.range.count}}};
  const auto& shape = tensor_.whole->parameters[x.parameter].shape;
  const uint32_t coordinate = plans_[rank]->layout->tensor_at(rank);
  own_elements out;
  out.runs = core::tp_slices(shape, cut, coordinate).runs(x.range.first, x.range.count);
  std::erase_if(out.runs, [](const core::tp_run& run) { return run.is_padding(); });
  if (out.runs.empty()) return out;
  out.first = core::tp_slices(shape, cut, coordinate, core::tp_room::own).before(out.runs.front().whole);
  for (const auto& run : out.runs) out.count += run.count;
  return out;
}

class save_job::part final : public save_part {
 public:
  part(std::shared_ptr<save_job> job, uint32_t rank);
  ~part() override;
  part(const part&) = delete;
  part& operator=(const part&) = delete;

  [[nodiscard]] bool takes(uint32_t b) const override;
  void copy(uint32_t b, std::span<const std::byte> from, std::byte* to) override;
  void fetch(uint32_t b, std::span<std::byte> to,
             const std::function<core::result<void>(std::span<std::byte>)>& read) override;
  void write(uint32_t b, std::span<const std::byte> block) override;
  void settle(uint32_t b) override;
  void end() override;

 private:
  void open();
  /// The piece of block `b` that comes next.
  [[nodiscard]] const plan::saved_piece& next_piece(uint32_t b) const;
  /// Elements of a piece that lie at `from`, which may be `to`, without padding, to `to`, where the piece has room with
  /// it; notes the digest.
  void stage_own(uint32_t b, const std::byte* from, std::span<std::byte> to);
  /// The save has failed. A failure of the training itself is not reported a second time by the save.
  void fail(core::error why);
  [[nodiscard]] bool sound() const { return file_.has_value(); }

  std::shared_ptr<save_job> job_;
  uint32_t rank_;
  std::optional<checkpoint::shard_writer> file_;  // none: not open, or the save has failed
  std::vector<std::optional<uint64_t>> tickets_;  // [block]
  double waited_s_ = 0;
  bool opened_ = false, ended_ = false;
};

std::unique_ptr<save_part> save_job::begin_part(uint32_t rank) {
  return std::make_unique<part>(shared_from_this(), rank);
}

save_job::part::part(std::shared_ptr<save_job> job, uint32_t rank)
    : job_(std::move(job)), rank_(rank), tickets_(job_->plans_[rank]->snapshots.size()) {
  ended_ = !job_->part_begun(rank);
  opened_ = ended_;
}

save_job::part::~part() {
  if (!ended_) fail({core::error_kind::stopped, "the run ended before the checkpoint was copied"});
}

bool save_job::part::takes(uint32_t b) const { return taken(job_->plans_[rank_]->snapshots[b], job_->request_); }

void save_job::part::open() {
  opened_ = true;
  auto file = job_->save_->create_shard(rank_, file_bytes(*job_->plans_[rank_], job_->request_));
  if (!file) return fail(file.error());
  file_.emplace(std::move(*file));
}

void save_job::part::copy(uint32_t b, std::span<const std::byte> from, std::byte* to) {
  if (!opened_) open();
  if (!sound()) return;
  const auto& x = next_piece(b);
  if (job_->own_of(rank_, x).count == x.range.count)
    job_->digests_[rank_][b].push_back(checkpoint::stage_piece(from, to));
  else
    stage_own(b, from.data(), {to, from.size()});
}

const plan::saved_piece& save_job::part::next_piece(uint32_t b) const {
  return job_->plans_[rank_]->snapshots[b].pieces[job_->digests_[rank_][b].size()];
}

void save_job::part::stage_own(uint32_t b, const std::byte* from, std::span<std::byte> to) {
  const auto& x = next_piece(b);
  const uint64_t element_bytes = to.size() / x.range.count;
  uint64_t reached = 0;
  for (const auto& run : job_->own_of(rank_, x).runs) {
    std::memmove(&to[reached], from + (run.local - x.range.first) * element_bytes, run.count * element_bytes);
    reached += run.count * element_bytes;
  }
  std::ranges::fill(to.subspan(reached), std::byte{0});
  (void)checkpoint::stage_piece_in_place(to);  // zeros up to the next piece
  job_->digests_[rank_][b].push_back(checkpoint::digest_of(to.first(reached)));
}

void save_job::part::fetch(uint32_t b, std::span<std::byte> to,
                           const std::function<core::result<void>(std::span<std::byte>)>& read) {
  if (!opened_) open();
  if (!sound()) return;
  if (auto ok = read(to); !ok) return fail(ok.error());
  const auto& x = next_piece(b);
  if (job_->own_of(rank_, x).count == x.range.count)
    job_->digests_[rank_][b].push_back(checkpoint::stage_piece_in_place(to));
  else
    stage_own(b, to.data(), to);
}

void save_job::part::write(uint32_t b, std::span<const std::byte> block) {
  if (!sound()) return;
  auto ticket = file_->start_block(block);
  if (!ticket) return fail(ticket.error());
  tickets_[b] = *ticket;
}

void save_job::part::settle(uint32_t b) {
  if (!sound() || !tickets_[b]) return;
  if (!file_->is_over(*tickets_[b])) {
    const int64_t begin = core::now_ns();
    auto ok = file_->wait(*tickets_[b]);
    waited_s_ += seconds_since(begin);
    if (!ok) return fail(ok.error());
  }
  tickets_[b].reset();
}

void save_job::part::end() {
  if (ended_) return;
  if (!opened_) open();
  if (!sound()) return;  // opening failed, and the job knows
  const auto file = file_->finish();
  if (!file) return fail(file.error());
  ended_ = true;
  job_->part_ended(rank_, file->bytes, waited_s_);
  file_.reset();
}

void save_job::part::fail(core::error why) {
  file_.reset();  // waits for writes in flight: no memory is read afterwards
  job_->fail(std::move(why));
  if (std::exchange(ended_, true)) return;
  job_->part_ended(rank_, 0, waited_s_);
}

}  // namespace troupe::actors
