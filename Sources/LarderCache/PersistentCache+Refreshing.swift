// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

// COMPUTED VALUES
//
// Every form of a computed value ends here. What a caller gets depends on what is known of the key:
//
//   a valid value           the value; sometimes one caller starts to compute the next one early
//   an expired value that   the value; a flight in the background computes the next one
//   is served stale
//   a negative entry        no value
//   anything else           the result of the key's flight; or if that fails, an expired value that
//                           is served after errors
//
// A flight in the background is a flight like any other: a call that has to wait joins it, and among
// processes it needs the lease of the key. It computes unless the stored value is another one than its
// caller saw.

extension PersistentCache {
  /// Returns the result of a computation, from the store, from memory, or from the key's flight.
  func result<R: Sendable>(
    _ computation: Computation<Value, R>, forKey key: Key
  ) async throws -> R {
    let refresh = computation.refresh
    if let value = tier.validValue(key) {
      if refresh.early > 0, let cached = entry(of: key) { refreshEarly(cached, computation, key) }
      if let result = computation.stored(.value(value)) { return result }
    }
    let state = try backend.readable(key, includesKept: refresh.kept > 0)
    var old: LoadedValue<Value>?
    if let loaded = state.value, loaded.expires <= tier.now {
      if refresh.servesStale(loaded.expires, at: tier.now),
        let result = computation.stored(.value(loaded.value))
      {
        start(computation, key, replacing: loaded)
        return result
      }
      old = loaded
    } else if let result = computation.stored(state.map(\.value)) {
      if let loaded = state.value { refreshEarly(loaded, computation, key) }
      return result
    }
    do {
      return try await backend.flights.value(call(key)) { [backend] flight in
        try await backend.compute(key, computation, flight)
      }
    } catch  where !(error is CancellationError) {
      guard let old, refresh.servesAfterError(old.expires, at: tier.now),
        let result = computation.stored(.value(old.value))
      else { throw error }
      (refresh.onError ?? report)(error)
      return result
    }
  }

  /// The number of callers of computations in this process. For tests.
  package var waitingCallers: Int { backend.flights.callers }

  /// Returns a value in memory with its expiration and the time of its computation.
  private func entry(of key: Key) -> LoadedValue<Value>? {
    tier.withEntry(key) { entry, _ in LoadedValue(entry) }
  }

  /// Starts to compute the next value of a key before the current one expires, with the probability of
  /// the refresh.
  private func refreshEarly<R>(
    _ current: LoadedValue<Value>, _ computation: Computation<Value, R>, _ key: Key
  ) {
    guard
      computation.refresh.isDue(
        expires: current.expires, computeTime: current.computeTime, at: tier.now)
    else { return }
    start(computation, key, replacing: current)
  }

  /// Starts to compute the next value of a key in the background.
  private func start<R>(
    _ computation: Computation<Value, R>, _ key: Key, replacing old: LoadedValue<Value>
  ) {
    var computation = computation
    computation.replacing = old
    let onError = computation.refresh.onError ?? report
    backend.flights.start(call(key), onError: onError) { [backend, computation] flight in
      try await backend.compute(key, computation, flight)
    }
  }

  private func call<R>(_ key: Key) -> SingleFlightGroup.Call<R> {
    SingleFlightGroup.Call(
      EncodedKey(key), in: namespace, timeout: options.computeTimeout,
      text: backend.context.text(of: key))
  }
}

extension StoreError {
  static var unchangedNothing: StoreError {
    StoreError(
      .invalidOption, during: "compute",
      "The computation answered that the old value is unchanged, but it was passed none. Return a "
        + "value if the parameter is `nil`.")
  }
}
