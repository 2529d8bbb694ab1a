// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderSystem
internal import Synchronization

// WRITES OF A HANDLER
//
// A handler is not called for its own changes. A change of a `Watched` property occurs on the
// handler's thread, inside the handler. A default that a handler sets is reported as a commit, on
// another thread, after the handler has returned; if the handler were called for it, a handler that
// increments a default would run forever. So a write records its key and bytes with the handlers
// that run on its thread. If the next observed change of the key is to exactly these bytes, those
// handlers are skipped. Every other observed change drops the record: an additional call is
// preferred to a missed one.

/// A key of a suite, independent of the handle.
struct SuiteKey: Sendable, Hashable {
  private let store: ObjectIdentifier
  private let key: EncodedKey

  init(_ core: StoreCore, _ key: EncodedKey) {
    store = ObjectIdentifier(core)
    self.key = key
  }
}

/// A key and its new content.
struct HandlerWrite: Sendable, Hashable {
  let place: SuiteKey
  /// The content, or `nil` if the key was removed.
  let content: DefaultsContent?
}

/// The handlers in progress, by thread; the innermost last.
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

  /// Records a write with all handlers that run on the calling thread.
  static func note(_ write: HandlerWrite) {
    let thread = OSThread.token
    let running = stacks.withLock { $0[thread] } ?? []
    for observation in running { observation.note(write) }
  }
}
