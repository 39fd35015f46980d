package trigger

import "go.uber.org/zap"

// logEvent logs the steps in the life of a range: at info what is normal, and as an
// error what an operator has to look at.
func logEvent(log *zap.Logger, e Event) {
	log = log.With(zap.String("range", e.Range), zap.Int64("epoch", e.Epoch))
	switch e.Kind {
	case EventAcquired:
		log.Info("lease acquired", zap.String("continuation", e.Continuation))
	case EventCaughtUp:
		log.Info("range caught up", zap.String("continuation", e.Continuation))
	case EventSplit:
		log.Info("range split; its children continue", zap.Strings("children", e.Children))
	case EventReleased:
		logRelease(log, e)
	case EventStalled:
		log.Error("range stalled", zap.String("cause", string(e.Stall.Kind)), zap.Time("since", e.Stall.Since),
			zap.String("why", e.Stall.Describe(e.Stall.Since.Add(e.Lasting))), zap.String("advice", e.Stall.Advice()))
	case EventRecovered:
		log.Info("range recovered", zap.String("cause", string(e.Stall.Kind)), zap.Time("since", e.Stall.Since), zap.Duration("lasted", e.Lasting))
	}
}

func logRelease(log *zap.Logger, e Event) {
	switch e.Reason {
	case ClosedHandedOver:
		log.Info("lease handed over", zap.String("continuation", e.Continuation))
	case ClosedLeaseLost:
		log.Info("lease lost to another host or an operator, or deleted", zap.Error(e.Err))
	case ClosedGone: // the split was logged
	case ClosedPaused:
		log.Info("lease released, the range is paused by an operator", zap.String("reason", e.Stall.Text), zap.String("continuation", e.Continuation))
	case ClosedStopped, ClosedCaughtUp:
		log.Info("lease released", zap.String("reason", string(e.Reason)), zap.String("continuation", e.Continuation))
	default:
		log.Error("lease released", zap.String("reason", string(e.Reason)), zap.Error(e.Err))
	}
}
