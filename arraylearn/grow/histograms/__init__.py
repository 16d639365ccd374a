"""Growth on histograms of all columns: single trees and boosting."""
