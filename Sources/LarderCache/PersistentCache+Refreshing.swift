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
  func result(
    _ computation: Computation<Value>, forKey key: Key
  ) async throws -> Value? {
    let refresh = computation.refresh
    if let value = tier.validValue(key) {
      if refresh.early > 0, let cached = tier.loaded(key) { refreshEarly(cached, computation, key) }
      return value
    }
    let state = try backend.readable(key, KeyRead(includesKept: refresh.kept > 0))
    if let loaded = state.value, loaded.expires <= tier.now {
      if refresh.servesStale(loaded.expires, at: tier.now) {
        start(computation, key, replacing: loaded, .stale)
        return loaded.value
      }
    } else if let result = computation.stored(state.map(\.value)) {
      if let loaded = state.value { refreshEarly(loaded, computation, key) }
      return result
    }
    do {
      return try await flight(of: key, computation)
    } catch  where !(error is CancellationError) && refresh.staleIfError > .zero {
      // Read again: the value may have been removed or written during the computation.
      guard
        let kept = try? backend.readable(key, KeyRead(includesKept: true, isRepeated: true)).value,
        refresh.servesAfterError(kept.expires, at: tier.now)
      else { throw error }
      (refresh.onError ?? report)(error)
      return kept.value
    }
  }

  /// Returns the result of the key's flight.
  ///
  /// - Parameter onWait: Called when another task or process computes the key.
  func flight(
    of key: Key, _ computation: Computation<Value>, onWait: (@Sendable () -> Void)? = nil
  ) async throws -> Value? {
    var call = call(key)
    call.onWait = onWait
    call.mayBeNil = computation.mayBeNil
    call.joinsAny = computation.joinsAny
    return try await backend.flights.value(call) { [backend] flight in
      try await backend.compute(key, computation, flight)
    }
  }

  /// The number of callers of computations in this process. For tests.
  package var waitingCallers: Int { backend.flights.callers }

  /// Starts to compute the next value of a key before the current one expires, with the probability of
  /// the refresh.
  private func refreshEarly(
    _ current: LoadedValue<Value>, _ computation: Computation<Value>, _ key: Key
  ) {
    guard
      computation.refresh.isDue(
        expires: current.expires, computeTime: current.computeTime, at: tier.now)
    else { return }
    start(computation, key, replacing: current, .early)
  }

  /// Starts to compute the next value of a key in the background.
  private func start(
    _ computation: Computation<Value>, _ key: Key, replacing old: LoadedValue<Value>,
    _ reason: MonitoredComputation.Reason
  ) {
    var computation = computation
    computation.replacing = old
    computation.reason = reason
    let onError = computation.refresh.onError ?? report
    var call = call(key)
    call.mayBeNil = computation.mayBeNil
    backend.flights.start(call, onError: onError) { [backend, computation] flight in
      try await backend.compute(key, computation, flight)
    }
  }

  private func call(_ key: Key) -> SingleFlightGroup.Call<Value?> {
    var call = SingleFlightGroup.Call<Value?>(
      EncodedKey(key), in: namespace, timeout: options.computeTimeout,
      text: backend.context.text(of: key))
    call.monitors = backend.monitors.map { [backend] in ($0, { backend.monitored(key) }) }
    return call
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
