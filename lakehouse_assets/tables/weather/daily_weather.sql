-- One row per station and UTC day.
select
  origin,
  cast(time_hour as date) as day,
  count(*) as readings,
  avg(temp_c) as temp_mean_c,
  min(temp_c) as temp_min_c,
  max(temp_c) as temp_max_c,
  avg(pressure_kpa) as pressure_mean_kpa,
  sum(precipitation_mm) as precipitation_sum_mm,
  max(wind_gust_m_s) as wind_gust_max_m_s
from silver_weather
group by origin, cast(time_hour as date)
