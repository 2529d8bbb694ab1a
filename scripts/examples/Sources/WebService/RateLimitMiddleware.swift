// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import Larder

/// Limits the rate of each client's requests, over all processes that share the store.
///
/// The state is in the store's directory, so a worker that restarts, or one that is added, permits no
/// additional request.
struct RateLimitMiddleware: RouterMiddleware {
  private let store: SharedStore
  private let limit: RateLimit
  private let secondsPerRequest: Int

  /// - Parameters:
  ///   - store: The store.
  ///   - rate: The requests of a client per second.
  ///   - burst: The requests of a client that are permitted at once after a pause.
  init(_ store: SharedStore, rate: Double, burst: Int) {
    self.store = store
    limit = .tokenBucket(rate: rate, burst: burst)
    secondsPerRequest = max(Int((1 / rate).rounded(.up)), 1)
  }

  func handle(
    _ request: Request, context: ServiceContext,
    next: (Request, ServiceContext) async throws -> Response
  ) async throws -> Response {
    guard try permits(context.clientAddress) else {
      // A bucket that is empty has a token after this time.
      throw HTTPError(
        .tooManyRequests, headers: [.retryAfter: "\(secondsPerRequest)"],
        message: "Too many requests.")
    }
    return try await next(request, context)
  }

  private func permits(_ client: String) throws -> Bool {
    // Clients may be many: when there is no room for each, some share a bucket.
    try store.rateLimiter("client \(client)", limit).tryAcquire()
  }
}
