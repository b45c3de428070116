// Stores a job's leader in an etcd (3.4 or later), through the HTTP gateway that each of its members has: over a plain
// connection for etcd://, or for etcds:// over TLS with certificates of the job's authority on both sides. Owns the
// requests, the lease's number, and the choice of the member to ask; consensus is left to etcd. Readers of the key
// still check the leader's certificate, so a false etcd can only keep a job from continuing.
#pragma once

#include "net/identity.hpp"
#include "net/leader_store.hpp"

namespace troupe::net {

/// Longest time to wait for the answer of one member of the store, in nanoseconds.
inline constexpr int64_t store_answer_ns_max = 1'000'000'000;

/// Creates the store of `job`: resolves the names of the store's members, but sends no request. `store`: a text that
/// core::read_store accepts; `me`: this host's files, read only if `store` requires TLS. Errors: bad_input, for another
/// text; the errors of identity::load.
core::result<std::unique_ptr<leader_store>> open_etcd(const std::string& store, const std::string& job,
                                                      uint32_t lease_s, const identity_files& me);

}  // namespace troupe::net
