// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderSystem
internal import Synchronization

// WHAT A HANDLER WRITES ITSELF
//
// A handler is not called for what it changes. For a `Watched` property that is plain: the change is
// on the handler's thread, within the handler. A default that a handler sets comes back as a commit
// like any other, on another thread, when the handler is long over; called for that, one that counts
// would count for ever. So a write notes itself with the handlers that run on its thread, as the key
// and the bytes; when the key is next seen to have changed, and to just these bytes, those handlers
// are passed over. Whatever else is seen drops the note: rather one call too many than one too few.

/// A key of a suite, by whichever handle.
struct SuiteKey: Sendable, Hashable {
  private let store: ObjectIdentifier
  private let key: EncodedKey

  init(_ core: StoreCore, _ key: EncodedKey) {
    store = ObjectIdentifier(core)
    self.key = key
  }
}

/// A key and what was made of it; `nil`: it was removed.
struct HandlerWrite: Sendable, Hashable {
  let place: SuiteKey
  let content: DefaultsContent?
}

/// The handlers that run, by thread; the innermost last.
enum ActiveHandlers {
  private static let stacks = Mutex<[UInt64: [any Observation]]>([:])

  static func run(_ observation: any Observation, _ handler: () -> Void) {
    let thread = OSThread.token
    stacks.withLock { $0[thread, default: []].append(observation) }
    handler()
    let last = stacks.withLock { stacks in
      defer { if stacks[thread]?.isEmpty == true { stacks[thread] = nil } }
      return stacks[thread]?.popLast()
    }
    withExtendedLifetime(last) {}
  }

  /// Notes a write with all handlers that run on the calling thread.
  static func note(_ write: HandlerWrite) {
    let thread = OSThread.token
    let running = stacks.withLock { $0[thread] } ?? []
    for observation in running { observation.note(write) }
  }
}
