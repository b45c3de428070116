// A job's leader in an etcd (3.4 or later), by the HTTP gateway that each of its members has: over a plain connection,
// as etcd:// says, or over TLS with certificates of the job's authority on both sides, as etcds:// does. Owns the
// questions, the lease's number, and which member is asked; there is no consensus of our own. Whoever reads the key
// still checks the leader's certificate, so an etcd that lies keeps a job from going on, and no more.
#pragma once

#include "net/identity.hpp"
#include "net/leader_store.hpp"

namespace troupe::net {

/// Longest wait for one member of the store.
inline constexpr int64_t store_answer_ns_max = 1'000'000'000;

/// `store` as core::read_store has it; `me`: this host, read where it wants TLS. Nobody is asked yet. Errors:
/// bad_input, for another text; as identity::load.
core::result<std::unique_ptr<leader_store>> open_etcd(const std::string& store, const std::string& job,
                                                      uint32_t lease_s, const identity_files& me);

}  // namespace troupe::net
