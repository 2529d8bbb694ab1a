// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// An observation of one property of one object, independent of their types.
protocol Observation: AnyObject, Sendable {
  var id: WatchID { get }
  /// The serial number of the observation in this process.
  var number: UInt64 { get }
  var isActive: Bool { get }
  /// Whether the observation is attached to a source that can change.
  var isAttached: Bool { get }
  /// Whether the object was deallocated or is being deallocated.
  var isGone: Bool { get }
  /// Returns whether it observes this object. An address may have belonged to another object before.
  func watches(_ object: AnyObject) -> Bool
  func isOf(_ keyPath: AnyKeyPath, reading accesses: [TrackedRead]) -> Bool
  /// Called before a change by sources that announce their changes.
  func willChange()
  /// Called after a change.
  ///
  /// - Parameter announced: Whether ``willChange()`` was called before the change.
  func didChange(announced: Bool)
  /// Called after a default has changed to the content of `write`, or to an unreadable value if
  /// `write` is `nil`.
  func didChange(by write: HandlerWrite?)
  /// Records a write that the handler is about to make.
  func note(_ write: HandlerWrite)
  func end()
  /// Called when a source will report no more changes.
  func sourceEnded(_ source: any ObservableSource)
}

extension Observation {
  /// Whether it will never be called again.
  var isOver: Bool { !isActive || isGone }
}

/// The identifier of an observation.
struct WatchID: Sendable, Hashable {
  let text: String
  /// The source file of the call, for identifiers that were generated.
  let file: String?
}

/// An observation of a property. The sources that the property reads retain it; it does not retain
/// the object.
final class PropertyObservation<Object: AnyObject, Value>: Observation {
  typealias Handler = (Object, WatchedChange<Value>) -> Void

  private struct State {
    var isActive = true
    var sources: [any ObservableSource] = []
    var old: UncheckedSendable<Value>?
    /// The threads on which its handler runs.
    var threads: Set<UInt64> = []
    /// The writes of its handler that were not yet observed.
    var ownWrites: [SuiteKey: HandlerWrite] = [:]
  }

  let id: WatchID
  let number = WatchRegistry.newNumber()
  private let place: WeakUncheckedSendable<Object>
  private let identity: ObjectIdentifier
  private let keyPath: UncheckedSendable<KeyPath<Object, Value>>
  private let options: WatchOptions
  private let handler: UncheckedSendable<Handler>
  /// Whether the object, and therefore the handler, may be used on any thread.
  private let isShared: Bool
  private let state = Mutex(State())

  init(
    _ object: Object, _ keyPath: KeyPath<Object, Value>, id: WatchID, options: WatchOptions,
    isShared: Bool, handler: @escaping Handler
  ) {
    place = WeakUncheckedSendable(object: object)
    identity = ObjectIdentifier(object)
    self.keyPath = UncheckedSendable(value: keyPath)
    self.id = id
    self.options = options
    self.isShared = isShared
    self.handler = UncheckedSendable(value: handler)
  }

  deinit { WatchRegistry.remove(number: number, id: id, of: identity) }

  private var object: Object? { place.object }
  var isActive: Bool { state.withLock { $0.isActive } }
  var isAttached: Bool { state.withLock { $0.isActive && !$0.sources.isEmpty } }
  var isGone: Bool { object == nil }

  func watches(_ object: AnyObject) -> Bool { self.object === object }

  func isOf(_ other: AnyKeyPath, reading accesses: [TrackedRead]) -> Bool {
    let keyPath: AnyKeyPath = keyPath.value
    if keyPath == other { return true }
    // The same property through another class has another key path, so the sources are compared.
    guard type(of: keyPath).rootType != type(of: other).rootType,
      type(of: keyPath).valueType == type(of: other).valueType, !accesses.isEmpty
    else { return false }
    let sources = Set(state.withLock { $0.sources }.map { ObjectIdentifier($0) })
    return sources == Set(accesses.map { ObjectIdentifier($0.source) })
  }

  // MARK: Changes

  /// Attaches the observation. With the option `initial`, the handler runs at once.
  func start() {
    guard let object else { return }
    let (value, isOutdated) = read(object)
    if options.contains(.initial) {
      call(object, WatchedChange(newValue: value, oldValue: nil, isPrior: false))
    }
    if isOutdated { didChange(announced: false) }
  }

  func willChange() {
    guard let object, !options.isDisjoint(with: [.old, .prior]), mayRun else { return }
    let old = object[keyPath: keyPath.value]
    let carried = UncheckedSendable(value: old)
    state.withLock { $0.old = carried }
    if options.contains(.prior) { callPrior(object, old) }
  }

  func didChange(announced: Bool) {
    guard mayRun else { return }
    // The object was deallocated, so the observation ends.
    guard let object else { return end() }
    let old = options.contains(.old) || options.contains(.prior) ? state.withLock { $0.old } : nil
    if !announced, options.contains(.prior), let old { callPrior(object, old.value) }
    let (value, isOutdated) = read(object)
    call(
      object,
      WatchedChange(
        newValue: value, oldValue: options.contains(.old) ? old?.value : nil, isPrior: false))
    if isOutdated { didChange(announced: false) }
  }

  func note(_ write: HandlerWrite) { state.withLock { $0.ownWrites[write.place] = write } }

  func didChange(by write: HandlerWrite?) {
    let isOwn = state.withLock { state in
      guard let write else { return false }
      return state.ownWrites.removeValue(forKey: write.place) == write
    }
    guard isOwn else { return didChange(announced: false) }
    // The handler is not called, but the property has another value now.
    guard mayRun, let object else { return }
    if read(object).isOutdated { didChange(announced: false) }
  }

  func end() {
    let sources = state.withLock { state in
      state.isActive = false
      defer { state.sources = [] }
      return state.sources
    }
    for source in sources { source.remove(self) }
  }

  func sourceEnded(_ source: any ObservableSource) {
    state.withLock { state in state.sources.removeAll { $0 === source } }
  }

  /// Whether the handler may run: the observation has not ended, and the handler is not running on
  /// this thread.
  private var mayRun: Bool {
    let thread = OSThread.token
    return state.withLock { $0.isActive && !$0.threads.contains(thread) }
  }

  private func callPrior(_ object: Object, _ old: Value) {
    call(
      object,
      WatchedChange(
        newValue: nil, oldValue: options.contains(.old) ? old : nil, isPrior: true))
  }

  private func call(_ object: Object, _ change: WatchedChange<Value>) {
    let thread = OSThread.token
    guard state.withLock({ $0.isActive && $0.threads.insert(thread).inserted }) else { return }
    ActiveHandlers.run(self) { handler.value(object, change) }
    _ = state.withLock { $0.threads.remove(thread) }
  }

  /// Reads the property and attaches the observation to exactly the sources that were read.
  ///
  /// - Returns: The value, and whether it has changed since the read.
  private func read(_ object: Object) -> (value: Value, isOutdated: Bool) {
    let (value, all) = AccessTracker.track { object[keyPath: keyPath.value] }
    let accesses = all.filter { isShared || !$0.source.isCrossThread }
    let now = accesses.map(\.source)
    let wantsOld = options.contains(.old) || options.contains(.prior)
    let carried = UncheckedSendable(value: value)
    let (before, isActive) = state.withLock { state in
      defer { if state.isActive { state.sources = now } }
      if wantsOld { state.old = carried }
      return (state.sources, state.isActive)
    }
    guard isActive else { return (value, false) }
    let kept = Set(now.map { ObjectIdentifier($0) })
    for source in before where !kept.contains(ObjectIdentifier(source)) { source.remove(self) }
    let known = Set(before.map { ObjectIdentifier($0) })
    var isOutdated = false
    for access in accesses {
      let isNew = !known.contains(ObjectIdentifier(access.source))
      if access.source.add(self, since: access.mark), isNew { isOutdated = true }
    }
    // Another thread may have ended the observation in the meantime; both threads detach it.
    if !self.isActive { for source in now { source.remove(self) } }
    return (value, isOutdated)
  }
}
